"""Text that others wrote, as a terminal or a log may get it, and pictures as texts (`data:`
addresses).

A sign that would steer or deceive the reader is shown as its escape in JSON, whose value stays as
it is. Two signs without width stay, U+200C and U+200D: Persian, the scripts of India and many emoji
are not readable without them.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def table_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table whose cells are shown as they are: in one, an image would be fetched by
    whoever looks at it.
    """
    cells = [
        [_MARKUP.sub(r"\\\g<0>", visible(" ".join(str(value).split()))) for value in row]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


PATTERN = r"^data:(image/(?:png|jpeg));base64,((?:iVBORw0KGg|/9j/)[A-Za-z0-9+/]+={0,2})$"
"""A text that is one picture and nothing else, by how the bytes of its format begin; for Python and
Polars.
"""
_PICTURE = re.compile(PATTERN)


class Picture(NamedTuple):
    """The bytes of a picture and their type, `image/png` or `image/jpeg`."""

    media_type: str
    data: bytes


def picture_text(picture: Picture) -> str:
    """The picture as a text, by which it has a hash and a vector.

    >>> picture_text(Picture("image/png", b"\\x89PNG"))
    'data:image/png;base64,iVBORw=='
    """
    return f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"


def picture_words(text: str) -> str:
    """The words by which a picture with this text is found: for its size alone `picture`."""
    return re.sub(r"^Picture of \d+ × \d+ pixels$", "picture", text.strip())


def is_picture(text: str) -> bool:
    """True for a text that is a picture (`picture_text`)."""
    # The beginning alone is compared first: most texts are words.
    return text.startswith("data:image/") and _PICTURE.match(text) is not None


def picture_of(text: str) -> Picture | None:
    """The picture of a text; None for words."""
    match = _PICTURE.match(text) if text.startswith("data:image/") else None
    return Picture(match[1], b64decode(match[2])) if match else None
