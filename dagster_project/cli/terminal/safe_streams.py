"""Standard output and standard error of the command line: whatever is written there is made visible first.

It is done to the streams, not in commands, so that no command, no message of a library, no log line and no
traceback can forget it. Pipes and files get the same text: somebody prints them later.
"""

import codecs
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click

from transforms.text.visible import visible


class SafeStream:
    """A text stream on another one, which is `beneath`; it is not a terminal, since colours would be escaped, too."""

    def __init__(self, beneath: TextIO):
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write `text` with its steering signs shown."""
        self.beneath.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of `lines`."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """False: nobody may send escape sequences here."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


class SafeGroup(click.Group):
    """A group of commands whose process writes to safe streams from the reading of its arguments on."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)
        return super().main(*args, **extra)


def beneath(stream: TextIO) -> TextIO:
    """The stream for a writer that makes its own text safe and sends sequences of its own."""
    return stream.beneath if isinstance(stream, SafeStream) else stream


def _safe(stream: TextIO) -> Any:
    if isinstance(stream, SafeStream):
        return stream
    # Click leaves a stream that says ASCII for one of its own, behind our back.
    if codecs.lookup(stream.encoding or "ascii").name == "ascii" and hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8")
    return SafeStream(stream)
