"""Positions at which a long text is split: after a gap, an item of a list, a line, a sentence, a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ITEM = re.compile(r"\n(?=(?:[-*+]|\d{1,9}[.)])[ \t])")
_GAPS = ("\n\n", "\n\r\n")
_SENTENCE = (". ", "? ", "! ", "; ", ": ", "。", "！", "？")


def splits(text: str, at: int, end: int, target: int) -> Iterator[int]:
    """Positions at most `target` characters apart, each at the strongest break nearby.

    >>> list(splits("One two. Three four.", 0, 20, 12))
    [9]
    """
    while end - at > target:
        remaining = end - at
        at = _split(
            text, at, at + min(target, remaining // 2 + target // 4 if remaining < 2 * target else target)
        )
        yield at


def _split(text: str, at: int, high: int) -> int:
    """The last position up to `high` after the strongest kind of break in the later two thirds."""
    low = at + (high - at) // 3
    if (cut := _behind_last(text, _GAPS, low, high)) > at:
        return cut
    items = [match.end() for match in _ITEM.finditer(text, low, high)]
    if items:
        return items[-1]
    for marks in ("\n", _SENTENCE, " \t"):
        if (cut := _behind_last(text, marks, low, high)) > at:
            return cut
    return high


def _behind_last(text: str, marks: Sequence[str], low: int, high: int) -> int:
    """The position after the last of several marks between two positions, -1 if there is none."""
    positions = ((text.rfind(mark, low, high), len(mark)) for mark in marks)
    return max(start + size if start >= 0 else -1 for start, size in positions)
