"""Segments of long text: prose, code, sections and windows of lines, cut at natural boundaries."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import sqlglot
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

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
            text,
            at,
            at + min(target, remaining // 2 + target // 4 if remaining < 2 * target else target),
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


PARAGRAPH = re.compile(r"\n(?:[ \t>]*\n)+")
SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|(?<=[。！？])")
LINE = re.compile(r"\n")
SPACES = re.compile(r"\s+")
# A definition begins at the left margin: after a blank line, after a closing brace at the margin,
# or with a keyword.
DEFINITION = re.compile(
    r"\n(?:[ \t]*\n)+(?=[^\s}#)])|\n[})][^\n]{0,20}\n(?=[^\s}#)])|\n(?=(?:def|class|sub) \w)"
)


class TextSegment(NamedTuple):
    """A half-open range of characters of a text, and the diff file and hunk header that contain it."""

    start: int
    end: int
    file: str = ""
    hunk: str = ""


class ProseLimits(NamedTuple):
    """Sizes of prose segments, in characters.

    A segment has at most `segment` characters and repeats up to `overlap` characters of the
    previous one. A longer paragraph stays in one segment up to `paragraph` characters unless
    `recursive`.
    """

    segment: int
    overlap: int
    paragraph: int
    recursive: bool = False


def prose_segments(text: str, start: int, end: int, limits: ProseLimits) -> Iterator[TextSegment]:
    """Segments that cover a range of text in order.

    Cuts fall on paragraphs. A paragraph over the limits is cut at sentences, else lines, else
    words, else anywhere.

    >>> text = "One two.\\n\\nThree four."
    >>> [text[s.start : s.end] for s in prose_segments(text, 0, 21, ProseLimits(12, 0, 40))]
    ['One two.\\n\\n', 'Three four.']
    """
    overlap = min(limits.overlap, limits.segment // 4)
    paragraphs = [m.end() for m in PARAGRAPH.finditer(text, start, end)]
    at = start
    while end - at > 0:
        lead = at - _overlap_start(text, start, at, overlap, paragraphs) if at > start else 0
        room = limits._replace(
            segment=limits.segment - lead, paragraph=max(limits.paragraph - lead, 1)
        )
        cut = _prose_cut(text, at, end, room, paragraphs)
        yield TextSegment(at - lead, cut)
        at = cut


def _prose_cut(text: str, at: int, end: int, limits: ProseLimits, paragraphs: list[int]) -> int:
    """The end of the segment that begins at `at`."""
    room = limits.segment
    if end - at <= room:
        return end
    aim = at + (room if end - at >= 2 * room else max((end - at + 1) // 2, 1))
    near = paragraphs[bisect_right(paragraphs, at) : bisect_right(paragraphs, at + room)]
    if near:
        return min(near, key=lambda p: abs(p - aim))
    if not limits.recursive:
        i = bisect_right(paragraphs, at)
        following = paragraphs[i] if i < len(paragraphs) else end
        if following - at <= limits.paragraph:
            return following
    window = text[at : at + room]
    for boundary in (SENTENCE, LINE, SPACES):
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
        for match in boundary.finditer(window):
            if match.end() < len(window):
                return low + match.end()
    return at


def line_windows(text: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `limit` characters that cover a range, cut at line ends if it has any.

    >>> list(line_windows("ab\\ncd\\nef", 0, 8, 4))
    [(0, 3), (3, 6), (6, 8)]
    """
    while end - start > limit:
        cut = text.rfind("\n", start, start + limit) + 1
        if cut <= start:
            cut = start + limit
        yield start, cut
        start = cut
    if end > start:
        yield start, end


def section_segments(text: str, limit: int) -> Iterator[TextSegment]:
    """Sections between blank lines, packed up to `limit` characters; a longer section is cut at
    lines.
    """
    yield from _packed(text, [m.end() for m in PARAGRAPH.finditer(text)], limit)


def code_segments(text: str, limit: int) -> Iterator[TextSegment]:
    """Definitions at the left margin, packed up to `limit` characters; a longer one is cut at
    lines.

    A definition includes the comment above it if no blank line separates them.
    """
    yield from _packed(text, [m.end() for m in DEFINITION.finditer(text)], limit)


def sql_segments(text: str, limit: int) -> Iterator[TextSegment]:
    """SQL statements, packed up to `limit` characters; a longer one is cut at lines.

    The tokenizer of sqlglot separates the semicolons that end a statement from those in strings,
    comments and dollar quotes. Text that it cannot read is cut like other code.

    >>> text = "select ';';\\nselect 2;"
    >>> [text[s.start : s.end] for s in sql_segments(text, 15)]
    ["select ';';\\n", 'select 2;']
    """
    try:
        tokens = sqlglot.tokenize(text, read="postgres")
    except TokenError:
        yield from code_segments(text, limit)
        return
    ends = (token.end for token in tokens if token.token_type == TokenType.SEMICOLON)
    lines = (text.find("\n", end) for end in ends)
    yield from _packed(text, sorted({at + 1 for at in lines if at >= 0}), limit)


def _packed(text: str, edges: list[int], limit: int) -> Iterator[TextSegment]:
    """Neighbouring ranges between edges joined up to `limit`; a longer one is cut at lines."""
    begin = 0
    for a, b in pairwise([0, *edges, len(text)]):
        if b - begin > limit and a > begin:
            yield TextSegment(begin, a)
            begin = a
        if b - begin > limit:
            yield from (TextSegment(c, d) for c, d in line_windows(text, begin, b, limit))
            begin = b
    if begin < len(text):
        yield TextSegment(begin, len(text))
