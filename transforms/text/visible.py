"""Text that others wrote, as it may reach a terminal or a log: what would steer or deceive the reader is shown, not obeyed.

Shown as escapes of JSON, so that the same function makes JSON safe and leaves its value as it is. Two signs without
width stay, U+200C and U+200D: Persian, the scripts of India and many emoji are not readable without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

STEERING = re.compile(
    "["
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls but newline and tab: they move, clear and write the clipboard
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction: they show a name or an address in another order
    "\u2028\u2029"  # line and paragraph separators
    "\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # unseen: they hide text in text
    "\ud800-\udfff"  # lone surrogates, which no stream can encode
    "]|\r(?!\n)"  # a return before a newline moves nothing; alone it overwrites the line
)


def visible(text: str) -> str:
    """`text` with each steering sign as its escape, as `\\u001b`."""
    return STEERING.sub(lambda sign: json.dumps(sign[0])[1:-1], text)


_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~$&]")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table whose cells are shown as they are: in one, an image would be fetched by whoever looks at it."""
    cells = [[_cell(str(value)) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


def _cell(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))
