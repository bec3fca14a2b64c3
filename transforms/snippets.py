"""The piece of a text that shows best why it was found."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

from transforms.settings import TermSettings
from transforms.terms import stems

_WORD = re.compile(r"\w+")
_BLANKS = re.compile(r"\s+")
LENGTH = 240
"""Characters of a snippet, about three lines of a terminal."""


class Snippet(NamedTuple):
    """A text on one line and the half-open character ranges in it that match the query."""

    text: str
    highlights: list[list[int]]


def snippet(text: str, wanted: Set[str], settings: TermSettings, length: int = LENGTH) -> Snippet:
    """The window of about `length` characters with the most distinct terms of `wanted`.

    White space is folded; windows start at a word. Ties go to the earliest window.
    """
    folded = _BLANKS.sub(" ", text).strip()
    words = list(_WORD.finditer(folded))
    stemmed = stems([w.group().lower() for w in words], settings)
    found = [(w.start(), w.end(), s) for w, s in zip(words, stemmed, strict=True) if s in wanted]
    start = _best_start(found, length)
    start = max(0, start - length // 6) if start + length < len(folded) or start > length // 6 else 0
    if start:
        start = folded.find(" ", start) + 1
    end = min(len(folded), start + length)
    if end < len(folded):
        end = max(folded.rfind(" ", start, end), start + length // 2)
    lead, tail = ("… " if start else ""), (" …" if end < len(folded) else "")
    shift = len(lead) - start
    marks = [[a + shift, b + shift] for a, b, _ in found if a >= start and b <= end]
    return Snippet(f"{lead}{folded[start:end]}{tail}", marks)


def _best_start(found: list[tuple[int, int, str]], length: int) -> int:
    """Start of the earliest window with the most distinct terms, by two pointers."""
    best, best_count = 0, 0
    counts: dict[str, int] = {}
    left = 0
    for start, end, term in found:
        counts[term] = counts.get(term, 0) + 1
        while end - found[left][0] > length * 5 // 6 and found[left][0] < start:
            gone = found[left][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            left += 1
        if len(counts) > best_count:
            best, best_count = found[left][0], len(counts)
    return best
