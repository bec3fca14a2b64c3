"""Ranges of a stored text: their bytes, and the text that people see of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from transforms.text.flowed import span_text

SUBSTANCE = re.compile(r"[^\W_]")
"""A letter or digit; a range without one says nothing."""


class Span(NamedTuple):
    """A half-open range of characters of a text, and the role it plays in a chunk: own or anchor."""

    start: int
    end: int
    role: str


class ByteOffsets:
    """Characters of a text to UTF-8 bytes; ASCII text maps to itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = text.isascii()
        self.known: tuple[int, int] = (0, 0)

    def __call__(self, char: int) -> int:
        """The byte offset of a character; cheap for offsets that lie near the last one."""
        if self.plain:
            return char
        at, byte = self.known
        if char >= at:
            byte += len(self.text[at:char].encode())
        else:
            byte -= len(self.text[char:at].encode())
        self.known = (char, byte)
        return byte


def merged(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """The ranges of spans in order, adjacent ones joined."""
    out: list[tuple[int, int]] = []
    for start, end, _ in spans:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def shown(text: str, spans: list[Span], gap: str = "\n\n", body_format: str = "plain") -> str:
    """What people see of spans: the text without soft line breaks, `gap` where something is left out.

    Every text of a chunk that shows a part of a body or attachment is made here.
    """
    if len(spans) == 1:
        return span_text(text, spans[0].start, spans[0].end, body_format).strip("\n")
    return gap.join([span_text(text, *span, body_format).strip("\n") for span in merged(spans)])
