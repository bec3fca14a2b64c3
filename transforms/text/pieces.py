"""Where long text is cut: prose, code, sections and windows of lines. Every loop advances."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import sqlglot
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

PARAGRAPH = re.compile(r"\n(?:[ \t>]*\n)+")
SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|(?<=[。！？])")
LINE = re.compile(r"\n")
WORD = re.compile(r"\s+")
# A definition begins at the left margin, behind a blank line, a closing brace or a statement's end at the margin.
DEFINITION = re.compile(
    r"\n(?:[ \t]*\n)+(?=[^\s}#)])|\n[})][^\n]{0,20}\n(?=[^\s}#)])|\n(?=(?:def|class|sub) \w)"
)


class Piece(NamedTuple):
    """A half-open range of characters of a text, and the diff file and hunk header it lies in."""

    start: int
    end: int
    file: str = ""
    hunk: str = ""


def text_pieces(
    text: str, start: int, end: int, limit: int, overlap: int, recursive: bool, bound: int
) -> Iterator[Piece]:
    """Pieces of a range of text that advance and cover it, each repeating up to `overlap` characters.

    Cuts fall on paragraphs. A paragraph over `limit` stays whole up to `bound` characters unless
    `recursive`; then it is cut at sentences, else lines, else words, else anywhere.
    """
    overlap = min(overlap, limit // 4)
    paragraphs = [m.end() for m in PARAGRAPH.finditer(text, start, end)]
    at = start
    while end - at > 0:
        lead = at - _overlap_start(text, start, at, overlap, paragraphs) if at > start else 0
        cut = _cut(text, at, end, limit - lead, recursive, paragraphs, max(bound - lead, 1))
        yield Piece(at - lead, cut)
        at = cut


def _cut(text: str, at: int, end: int, room: int, recursive: bool, paragraphs: list[int], bound: int) -> int:
    """Where the piece that begins at `at` ends."""
    if end - at <= room:
        return end
    aim = at + (room if end - at >= 2 * room else max((end - at + 1) // 2, 1))
    near = paragraphs[bisect_right(paragraphs, at) : bisect_right(paragraphs, at + room)]
    if near:
        return min(near, key=lambda p: abs(p - aim))
    if not recursive:
        i = bisect_right(paragraphs, at)
        following = paragraphs[i] if i < len(paragraphs) else end
        if following - at <= bound:
            return following
    window = text[at : at + room]
    for boundary in (SENTENCE, LINE, WORD):
        cuts = [m.end() for m in boundary.finditer(window) if m.end() < room]
        late = [c for c in cuts if c > room // 3]
        if late:
            return at + min(late, key=lambda c: abs(at + c - aim))
    return at + room


def _overlap_start(text: str, start: int, at: int, overlap: int, paragraphs: list[int]) -> int:
    """The earliest start of a paragraph, sentence or line within `overlap` characters before `at`."""
    low = max(start, at - overlap)
    i = bisect_left(paragraphs, low)
    if i < len(paragraphs) and paragraphs[i] < at:
        return paragraphs[i]
    window = text[low:at]
    for boundary in (SENTENCE, LINE):
        for found in boundary.finditer(window):
            if found.end() < len(window):
                return low + found.end()
    return at


def line_windows(text: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `limit` characters that cover a range, cut at lines where there are any."""
    while end - start > limit:
        cut = text.rfind("\n", start, start + limit) + 1
        if cut <= start:
            cut = start + limit
        yield start, cut
        start = cut
    if end > start:
        yield start, end


def section_pieces(text: str, limit: int) -> Iterator[Piece]:
    """Blank-line sections of a text packed up to `limit` characters; a longer one is cut at lines."""
    yield from _packed(text, [m.end() for m in PARAGRAPH.finditer(text)], limit)


def code_pieces(text: str, limit: int) -> Iterator[Piece]:
    """Definitions at the left margin packed up to `limit` characters; a longer one is cut at lines.

    A definition keeps the comment above it where no blank line parts them.
    """
    yield from _packed(text, [m.end() for m in DEFINITION.finditer(text)], limit)


def sql_pieces(text: str, limit: int) -> Iterator[Piece]:
    """Statements packed up to `limit` characters; one that is longer is cut at lines.

    The tokenizer of sqlglot says which semicolons end a statement and which stand in strings, comments
    or dollar quotes. What it cannot read is cut as other code is.
    """
    try:
        tokens = sqlglot.tokenize(text, read="postgres")
    except TokenError:
        yield from code_pieces(text, limit)
        return
    ends = (token.end for token in tokens if token.token_type == TokenType.SEMICOLON)
    lines = (text.find("\n", end) for end in ends)
    yield from _packed(text, sorted({at + 1 for at in lines if at >= 0}), limit)


def _packed(text: str, edges: list[int], limit: int) -> Iterator[Piece]:
    """Neighbouring ranges between edges joined up to `limit`; a longer one is cut at lines."""
    begin = 0
    for a, b in pairwise([0, *edges, len(text)]):
        if b - begin > limit and a > begin:
            yield Piece(begin, a)
            begin = a
        if b - begin > limit:
            yield from (Piece(c, d) for c, d in line_windows(text, begin, b, limit))
            begin = b
    if begin < len(text):
        yield Piece(begin, len(text))
