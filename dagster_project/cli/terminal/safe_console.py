"""The console that tables, hits and progress are printed on: it sends sequences of its own, and
none of a text's.
"""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from dagster_project.cli.terminal.lazy_group import beneath
from transforms.text.visible import STEERING, visible

_PIPED_WIDTH = 120


class SafeConsole(Console):
    """A console that shows the steering signs of every text; a string is not markup and holds no
    names of emoji.
    """

    def __init__(self, stream: TextIO, **options: Any):
        super().__init__(
            file=beneath(stream), highlight=False, markup=False, emoji=False, **options
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of the output: texts are made safe before they are laid out, so that tables
        stay whole.
        """
        if isinstance(renderable, str):
            renderable = visible(renderable)
        elif isinstance(renderable, Text):
            renderable = _visible(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _visible(text: Text) -> Text:
    """`text` with its steering signs shown, its styles where they were."""
    cuts = [place for sign in STEERING.finditer(text.plain) for place in sign.span()]
    printable = text.blank_copy()
    for segment in text.divide(cuts):
        segment.plain = visible(segment.plain)
        printable.append_text(segment)
    return printable if cuts else text


def terminal() -> Console:
    """The console on stdout; where that is not a terminal, wide enough that lines stay whole."""
    console = SafeConsole(sys.stdout)
    return console if console.is_terminal else SafeConsole(sys.stdout, width=_PIPED_WIDTH)
