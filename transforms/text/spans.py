"""Ranges of a stored text: byte offsets of characters and of lines, and the text that is shown."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

FLOWED_FORMATS = frozenset({"flowed", "flowed_delsp"})
"""Values of `messages.body_format` whose text has soft line breaks; `flowed_delsp` means DelSp=yes.
"""

SIGNATURE_SEPARATOR = "-- "

# The quote marks of a line (RFC 3676 section 4.5), between them blanks as some programs write them;
# the blank that stuffs it (section 4.4); its text; its end.
_LINE = re.compile(r"(?: (?=>))?((?:>(?: (?=>))?)*) ?([^\n]*)(\n?)")


def span_text(body: str, start: int, end: int, body_format: str) -> str:
    """The characters `[start, end)` of a body of any `messages.body_format` as they were written."""
    if body_format not in FLOWED_FORMATS:
        return body[start:end]
    return flowed_text(body, start, end, del_sp=body_format == "flowed_delsp")


def flowed_text(body: str, start: int, end: int, *, del_sp: bool = False) -> str:
    """The characters `[start, end)` of a flowed `body` as their author wrote them.

    A line that ends in a blank goes on in the next line of the same quote depth; with `del_sp` its
    last blank goes too (RFC 3676 section 4.2, 4.3). The blank that stuffs a line is taken off.
    Quote marks stay on the first line of a joined paragraph, one blank behind them. The signature
    separator `-- ` joins neither way. A soft break before a line of another depth stays a line end.

    Two things are taken other than the RFC has them, because real archives show their meaning. A
    line of nothing but blanks joins nothing: most are empty lines of a quoted diff. A line that is
    stuffed and then begins with `>` is a quoted one: such lines are quotes that were pasted.
    """
    fragments: list[str] = []
    open_depth: int | None = None
    end = min(end, len(body))
    at = body.rfind("\n", 0, start) + 1
    while at < end:
        line = _LINE.match(body, at, end)
        assert line is not None, "the pattern matches the empty text too"
        marks, text, line_end = line.groups()
        depth, is_separator = marks.count(">"), text == SIGNATURE_SEPARATOR
        if start > at:  # the span begins inside the line
            marks, text = "", body[max(start, line.start(2)) : line.end(2)]
        if open_depth != depth or is_separator:
            fragments.append("" if open_depth is None else "\n")
            fragments.append(f"{marks} " if marks and text else marks)
        is_soft = bool(line_end) and text.endswith(" ") and not text.isspace() and not is_separator
        fragments.append(text[:-1] if is_soft and del_sp else text)
        fragments.append("" if is_soft else line_end)
        open_depth = depth if is_soft else None
        at = line.end()
    return "".join(fragments) + ("" if open_depth is None else "\n")


SUBSTANCE = re.compile(r"[^\W_]")
"""A letter or digit; a range without one has nothing to search for."""


class Span(NamedTuple):
    """A half-open range of characters of a text, and its role in a chunk: own or anchor."""

    start: int
    end: int
    role: str


def merged_ranges(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """The ranges of spans in order, adjacent ones joined.

    >>> merged_ranges([Span(0, 2, "own"), Span(2, 5, "anchor"), Span(7, 9, "own")])
    [(0, 5), (7, 9)]
    """
    out: list[tuple[int, int]] = []
    for start, end, _ in spans:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def display_text(
    text: str, spans: list[Span], gap: str = "\n\n", body_format: str = "plain"
) -> str:
    """The text of spans without soft line breaks, with `gap` between ranges that are not adjacent.

    Every chunk text that shows a range of a body or attachment comes from this function.

    >>> display_text("one\\ntwo\\nthree", [Span(0, 3, "own"), Span(8, 13, "own")], " … ")
    'one … three'
    """
    if len(spans) == 1:
        return span_text(text, spans[0].start, spans[0].end, body_format).strip("\n")
    return gap.join(
        [span_text(text, *span, body_format).strip("\n") for span in merged_ranges(spans)]
    )


class Offsets:
    """Characters of a text to UTF-8 bytes and back; in ASCII text they are the same.

    Memory holds only the bytes that do not begin a character: their positions, and the characters
    before them.

    >>> Offsets("año").bytes([2]), Offsets("año").chars([3])
    ([3], [2])
    """

    def __init__(self, text: str):
        self._inner: np.ndarray | None = None
        if not text.isascii():
            self._inner = np.flatnonzero(np.frombuffer(text.encode(), np.int8) < -64)
            self._owners = self._inner - np.arange(1, len(self._inner) + 1)

    def __call__(self, char: int) -> int:
        """The byte at which a character begins."""
        return char if self._inner is None else char + int(np.searchsorted(self._owners, char))

    def bytes(self, chars: Sequence[int]) -> list[int]:
        """The bytes at which these characters begin."""
        if self._inner is None:
            return list(chars)
        return (np.asarray(chars, dtype=np.int64) + np.searchsorted(self._owners, chars)).tolist()

    def chars(self, positions: Sequence[int]) -> list[int]:
        """The characters that begin at these bytes."""
        if self._inner is None:
            return list(positions)
        return (
            np.asarray(positions, dtype=np.int64) - np.searchsorted(self._inner, positions)
        ).tolist()
