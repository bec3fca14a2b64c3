"""Lines: a batch of bodies as positions in one buffer, their words, and questions about all lines
at once.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask: TypeAlias = npt.NDArray[np.bool_]
RowNos: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int32]

LINE_KINDS = ("author", "blank", "header", "patch_or_code", "quote", "signature")
AUTHOR, BLANK, HEADER, CODE, QUOTE, SIGNATURE = range(6)

# Expressions read this much of a line's head or tail; a body of one line stays cheap.
READ_BYTES = 400
# Up to so many texts are matched by Python's expressions where these need little time.
FEW_TEXTS = 64
# Steps that arrays take along leading blanks and quote marks before single lines are read instead.
VECTOR_STEPS = 48


def byte_table(members: bytes) -> Mask:
    """Which of the 256 bytes are in `members`."""
    table = np.zeros(256, dtype=bool)
    table[list(members)] = True
    return table


SPACE = byte_table(b" \t\r\n\x0b\x0c")
LETTER = byte_table(bytes(range(65, 91)) + bytes(range(97, 123)) + bytes(range(128, 256)))
UPPER = byte_table(bytes(range(65, 91)))
WORD_END = LETTER | byte_table(b",.;'")
SYMBOL = byte_table(b'{}[]()<>=;|\\/&#$@*_"+%^~:`0123456789')
UNICODE_BLANK = re.compile(
    rb"(?:[ \t\r\x0b\x0c]|\xc2[\xa0\x85]|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80|"
    rb"\xe1\x9a\x80)*"
)


class Rule:
    """An RE2 expression for the text of a line from its first visible byte, and how such lines
    begin.

    `starts` are beginnings of one or two bytes, `·` standing for a blank; without them every line
    is read. The expression must match at the beginning unless `search` is true. Text is matched as
    bytes: a character outside ASCII is a sequence of them and may not stand in brackets. `needs`
    matches, anywhere in a line, whatever `pattern` does: an expression with the words of all
    languages costs more to compile than to match, so it is compiled for lines that meet a short one
    alone. With `lower` the text is matched in small letters, which takes less time than to ignore
    case. A `plain` expression needs little time with backtracking, too: few lines are matched by
    Python's expressions, which are compiled once a process, those of Arrow with each call.
    """

    def __init__(
        self,
        pattern: str,
        starts: str | None = None,
        search: bool = False,
        needs: str | None = None,
        lower: bool = False,
        plain: bool = False,
    ) -> None:
        self.pattern = pattern if search else f"^(?:{pattern})"
        self.needs, self.lower, self.plain = needs, lower, plain
        self.table = None if starts is None else _pair_table(starts.split())
        first = {start.replace("·", " ").encode()[0] for start in (starts or "").split()}
        self.first = first.pop() if len(first) == 1 else None
        """The one byte with which all matches begin."""

    @cached_property
    def compiled(self) -> re.Pattern[bytes]:
        """The expression as Python's."""
        return re.compile(self.pattern.encode())


def _pair_table(starts: Iterable[str]) -> Mask:
    """Which pairs of first bytes may begin a match."""
    table = np.zeros((256, 256), dtype=bool)
    for start in starts:
        first, *second = start.replace("·", " ").encode()[:2]
        table[first, second or slice(None)] = True
    return table.reshape(-1)


def _search(texts: pa.Array, pattern: str) -> Mask:
    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False).copy()


def _matching(texts: pa.Array, rule: Rule) -> Mask:
    if rule.plain and len(texts) <= FEW_TEXTS:
        return np.array(
            [rule.compiled.search(text) is not None for text in texts.to_pylist()], dtype=bool
        )
    return _search(texts, rule.pattern)


def next_true(mask: Mask) -> RowNos:
    """For each row, the first row at or after it where `mask` holds; the length if none."""
    rows = np.append(np.flatnonzero(mask), len(mask))
    return np.repeat(rows, np.diff(rows, prepend=-1))[: len(mask)]


def next_at(mask: Mask, rows: RowNos) -> RowNos:
    """For each of `rows`, the first row at or after it where `mask` holds; the length if none."""
    true = np.append(np.flatnonzero(mask), len(mask))
    return true[np.searchsorted(true, rows)]


def last_true(mask: Mask) -> RowNos:
    """For each row, the last row at or before it where `mask` holds; -1 if none."""
    rows = np.append(-1, np.flatnonzero(mask))
    counts = np.diff(rows, append=len(mask))
    counts[0] -= 1
    return np.repeat(rows, counts)


def counts_before(mask: Mask) -> Counts:
    """How often `mask` holds before each row; one entry more than rows."""
    total = np.zeros(len(mask) + 1, dtype=np.int32)
    np.cumsum(mask, dtype=np.int32, out=total[1:])
    return total


def rows_within(starts: RowNos, ends: RowNos, n: int) -> Mask:
    """Rows inside one of the half-open intervals."""
    if not len(starts):
        return np.zeros(n, dtype=bool)
    change = np.zeros(n + 1, dtype=np.int32)
    np.add.at(change, starts, 1)
    np.add.at(change, np.maximum(starts, ends), -1)
    return np.cumsum(change, dtype=np.int32)[:n] > 0


class Lines:
    """The lines of a batch of bodies, and the facts of each: `kind`, `depth` and `inferred`.

    `starts`, `ends` bound a line with its line end, `heads`, `stops` its visible part. `byte` and
    `last` are its first and last visible bytes, `pair` the first two, `indent` the bytes of blanks
    before. A line is settled once: every step marks only rows that are still author text.
    """

    def __init__(self, buffer: pa.Buffer, edges: RowNos) -> None:
        self.buffer = buffer
        self.view = memoryview(buffer)
        self.data = np.frombuffer(buffer, dtype=np.uint8)
        self._cut(edges)
        self.stops = self._trimmed_end()
        self.heads = self._first_visible()
        self._read_edges()
        self._rows_by_byte: dict[int, RowNos] = {}
        self.kind = np.where(self.blank, np.int8(BLANK), np.int8(AUTHOR))
        self.depth = np.zeros(self.n, dtype=np.int32)
        self.inferred = np.zeros(self.n, dtype=bool)
        self.head_texts = self._texts(self.heads, np.minimum(self.stops, self.heads + READ_BYTES))
        self.tail_texts = self._texts(np.maximum(self.heads, self.stops - READ_BYTES), self.stops)

    def _cut(self, edges: RowNos) -> None:
        """Lines end behind a newline and at the end of a body; empty bodies have none."""
        newline = np.flatnonzero(self.data == 10) + 1
        bounds = np.sort(np.concatenate((edges, newline)), kind="stable")
        bounds = bounds[np.concatenate((bounds[1:] != bounds[:-1], [True]))]
        self.starts, self.ends = bounds[:-1], bounds[1:]
        self.n = n = len(self.starts)
        bodies = np.flatnonzero(edges[1:] > edges[:-1])
        opening = np.searchsorted(self.starts, edges[bodies])
        counts = np.diff(np.append(opening, n))
        self.m = np.repeat(bodies, counts)
        self.message_start = np.repeat(opening, counts)
        self.message_end = np.repeat(opening + counts, counts)
        self.first = np.zeros(n, dtype=bool)
        self.first[opening] = True

    def _read_edges(self) -> None:
        """First and last bytes, and which lines are blank."""
        self.blank = self.heads >= self.stops
        padded = np.concatenate((self.data, np.zeros(2, dtype=np.uint8)))
        self.byte = padded[self.heads]
        self.byte[self.blank] = 0
        for row in np.flatnonzero(
            (self.byte == 0xC2) | ((self.byte >= 0xE1) & (self.byte <= 0xE3))
        ).tolist():
            # Its first byte may begin a blank that is not ASCII.
            self.blank[row] |= bool(
                UNICODE_BLANK.fullmatch(self.view, int(self.heads[row]), int(self.stops[row]))
            )
        self.pair = self.byte.astype(np.uint16) << 8 | padded[self.heads + 1]
        self.indent = self.heads - self.starts
        self.last = self.data[np.maximum(self.stops - 1, 0)]

    def _trimmed_end(self) -> RowNos:
        """Where the visible part of each line ends."""
        stops = self.ends.copy()
        rows = np.flatnonzero(SPACE[self.data[stops - 1]])
        for _ in range(VECTOR_STEPS):
            stops[rows] -= 1
            rows = rows[stops[rows] > self.starts[rows]]
            rows = rows[SPACE[self.data[stops[rows] - 1]]]
            if not len(rows):
                return stops
        for row in rows.tolist():
            start = int(self.starts[row])
            stops[row] = start + len(bytes(self.view[start : int(stops[row])]).rstrip())
        return stops

    def _first_visible(self) -> RowNos:
        """Where the visible part of each line begins; its end where there is none."""
        heads = self.starts.copy()
        rows = np.flatnonzero(SPACE[self.data[heads]] & (heads < self.stops))
        for _ in range(VECTOR_STEPS):
            heads[rows] += 1
            rows = rows[SPACE[self.data[heads[rows]]]]
            if not len(rows):
                return heads
        for row in rows.tolist():
            text = self.text(row)
            heads[row] = int(self.stops[row]) - len(text.lstrip())
        return heads

    def bytes_of(self, among: Mask) -> npt.NDArray[np.uint8]:
        """The bytes of the rows `among`, line ends included, one behind the other."""
        offsets = pa.py_buffer(np.append(self.starts, len(self.data)))
        lines = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self.n, [None, offsets, self.buffer]
        )
        selected = lines.take(pa.array(np.flatnonzero(among))).buffers()[2]
        return np.frombuffer(selected or b"", dtype=np.uint8)

    def _texts(self, heads: RowNos, stops: RowNos) -> pa.LargeBinaryArray:
        """Lines at even places, the texts between them at odd ones, without a copy of the bytes."""
        offsets = np.empty(2 * self.n, dtype=np.int64)
        offsets[0::2], offsets[1::2] = heads, stops
        parts = [None, pa.py_buffer(offsets), self.buffer]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * self.n - 1, parts)

    def text(self, row: int) -> bytes:
        """The visible text of a row, with its leading blanks."""
        return bytes(self.view[int(self.starts[row]) : int(self.stops[row])])

    def matching(self, rule: Rule, rows: RowNos, tail: bool = False) -> Mask:
        """For each of `rows`, whether its head, or tail, matches."""
        if not len(rows):
            return np.zeros(0, dtype=bool)
        texts = (self.tail_texts if tail else self.head_texts).take(pa.array(2 * rows))
        if rule.lower:
            small = pa.py_buffer(texts.buffers()[2].to_pybytes().lower())
            texts = pa.LargeBinaryArray.from_buffers(
                texts.type, len(texts), [None, texts.buffers()[1], small]
            )
        if rule.needs is None:
            return _matching(texts, rule)
        mask = _search(texts, rule.needs)
        if mask.any():
            mask[mask] = _matching(texts.filter(pa.array(mask)), rule)
        return mask

    def matches(self, rule: Rule, among: Mask, tail: bool = False) -> Mask:
        """Rows of those `among` whose head, or tail, matches."""
        out = np.zeros(self.n, dtype=bool)
        if rule.first is None:
            rows = np.flatnonzero(among)
        else:
            rows = self._beginning(rule.first)
            rows = rows[among[rows]]
        if rule.table is not None:
            rows = rows[rule.table[self.pair[rows]]]
        out[rows] = self.matching(rule, rows, tail)
        return out

    def _beginning(self, byte: int) -> RowNos:
        if byte not in self._rows_by_byte:
            self._rows_by_byte[byte] = np.flatnonzero(self.byte == byte)
        return self._rows_by_byte[byte]

    def spans_matching(self, rule: Rule, starts: RowNos, ends: RowNos) -> Mask:
        """For each run of rows `[start, end]`, whether its text matches, line ends included."""
        if not len(starts):
            return np.zeros(0, dtype=bool)
        heads = np.maximum(self.heads[starts], self.stops[ends] - 2 * READ_BYTES).tolist()
        texts = [
            self.view[a:b].tobytes() for a, b in zip(heads, self.stops[ends].tolist(), strict=True)
        ]
        return _search(pa.array(texts, pa.large_binary()), rule.pattern)

    def shifted(self, mask: Mask, by: int) -> Mask:
        """`mask` moved down by `by` rows (up if negative) within each mail, false where nothing
        comes in.
        """
        out = np.zeros_like(mask)
        if abs(by) >= self.n:
            return out
        to, source = (
            (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
        )
        if abs(by) == 1:
            out[to] = mask[source] & ~self.first[1:]
        else:
            out[to] = mask[source] & (self.m[source] == self.m[to])
        return out

    def author(self) -> Mask:
        """Rows that no step has settled yet."""
        return self.kind == AUTHOR

    def mark(self, rows: Mask, kind: int, inferred: bool = False) -> None:
        """Sets the kind of rows."""
        self.kind[rows] = kind
        if inferred:
            self.inferred[rows] = True

    def at(self, rows: RowNos | Mask) -> Mask:
        """A mask of these rows."""
        mask = np.zeros(self.n, dtype=bool)
        mask[rows] = True
        return mask

    def in_mails(self, rows: RowNos | Mask) -> Mask:
        """All rows of the mails that have one of `rows`."""
        return self.at(self.message_start[rows])[self.message_start]

    def until(self, stop: Mask, rows: RowNos) -> RowNos:
        """For each of `rows`, the first row at or after it where `stop` holds, at most the end of
        its mail.
        """
        return np.minimum(next_at(stop, rows), self.message_end[rows])

    @cached_property
    def next_filled(self) -> RowNos:
        """For each row, the next row of the same mail that is not blank; its own row if none."""
        following = np.append(next_true(~self.blank), self.n)[1:]
        return np.where(following < self.message_end, following, np.arange(self.n))

    def behind(self, mask: Mask) -> RowNos:
        """For each row, the next row behind it where `mask` holds, at most the end of its mail."""
        return np.minimum(np.append(next_true(mask), self.n)[1:], self.message_end)


class Words(NamedTuple):
    """Counts per row; 0 for rows that were settled before."""

    symbols: Counts  # signs and digits
    gaps: Counts  # blanks between two words
    small: Counts  # those before a word that begins with a small letter
    columns: Counts  # tabs and runs of three blanks inside the line


# The classes of a byte, as a set of bits: one pass over the text finds all of them.
_SYMBOL, _WORD_END, _LETTER, _UPPER, _SPACE, _BLANK, _TAB = (1 << bit for bit in range(7))
_TABLES = (
    (_SYMBOL, SYMBOL),
    (_WORD_END, WORD_END),
    (_LETTER, LETTER),
    (_UPPER, UPPER),
    (_SPACE, SPACE),
    (_BLANK, byte_table(b" ")),
    (_TAB, byte_table(b"\t")),
)
_CLASSES = bytes(sum(bit for bit, table in _TABLES if table[byte]) for byte in range(256))


def read_words(lines: Lines) -> Words:
    """The counts of all lines that are still text."""
    author = lines.author()
    counts = Words(*(np.zeros(lines.n, dtype=np.int32) for _ in Words._fields))
    sizes = (lines.ends - lines.starts)[author]
    text = np.frombuffer(lines.bytes_of(author).tobytes().translate(_CLASSES), dtype=np.uint8)
    if not len(text):
        return counts
    starts = np.cumsum(sizes) - sizes
    counts.symbols[author] = np.add.reduceat(text & _SYMBOL, starts, dtype=np.int32)
    blank = (text & _BLANK) != 0
    gap = np.zeros(len(text), dtype=bool)
    gap[1:-1] = blank[1:-1] & ((text[:-2] & _WORD_END) != 0) & ((text[2:] & _LETTER) != 0)
    gap[starts] = False
    gap[starts - 1] = False
    counts.gaps[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    gap[:-1] &= (text[1:] & _UPPER) == 0
    counts.small[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    column = (text & _TAB) != 0
    column[2:] |= blank[2:] & blank[1:-1] & blank[:-2]
    column[1:] = column[:-1] & ((text[1:] & _SPACE) == 0)
    column[starts + lines.indent[author]] = False
    counts.columns[author] = np.add.reduceat(column, starts, dtype=np.int32)
    return counts
