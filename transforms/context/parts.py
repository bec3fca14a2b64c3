"""The parts of a text that wants context: what each of its paragraphs and questions is about by itself."""

from __future__ import annotations

import re

_ENDS = re.compile(r"\n\s*\n|(?<=\?)[\"')\]]*\s+")
"""Where a paragraph ends, or a question."""
_LEAST_WORDS, _LEAST_OF_QUESTION = 25, 4
_MOST = 16


def parts(text: str) -> list[str]:
    """The parts of a text in order: questions, and paragraphs, small ones together; at most 16, longer in a long text.

    >>> parts("We moved to a new host. Why is the index bloated? And which lock does a vacuum take?")
    ['We moved to a new host. Why is the index bloated?', 'And which lock does a vacuum take?']
    """
    pieces = [piece.strip() for piece in _ENDS.split(text) if piece.strip()]
    least = max(_LEAST_WORDS, len(text.split()) // _MOST)
    found: list[str] = []
    is_open = False
    for piece in pieces:
        if is_open:
            found[-1] = f"{found[-1]}\n{piece}"
        else:
            found.append(piece)
        words = len(found[-1].split())
        is_question = piece.endswith("?") and least == _LEAST_WORDS
        is_open = words < (_LEAST_OF_QUESTION if is_question else least)
    if is_open and len(found) > 1:
        last = found.pop()
        found[-1] = f"{found[-1]}\n{last}"
    return found
