"""Pictures as texts: `data:` addresses, which a model that sees is sent as pictures."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

PATTERN = r"^data:(image/(?:png|jpeg));base64,((?:iVBORw0KGg|/9j/)[A-Za-z0-9+/]+={0,2})$"
"""A text that is one picture and nothing else, by how the bytes of its format begin; for Python and Polars."""
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


def is_picture(text: str) -> bool:
    """True for a text that stands for a picture."""
    # The beginning alone is compared first: most texts are words.
    return text.startswith("data:image/") and _PICTURE.match(text) is not None


def picture_of(text: str) -> Picture | None:
    """The picture that a text stands for; None for words."""
    found = _PICTURE.match(text) if text.startswith("data:image/") else None
    return Picture(found[1], b64decode(found[2])) if found else None
