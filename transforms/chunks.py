"""Chunks: the retrieval units made from the blocks of mail bodies and from the text of attachments.

What is here: pairing of replies with the quotes they answer, splitting of long text and of diffs,
and the account of what became no chunk. What is not: reading mail, finding blocks, joins across mails.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from transforms.chunk_table import chunk_table
from transforms.hashing import parts_hash, text_hash
from transforms.schemas import CHUNKS, EXCLUSIONS
from transforms.settings import ChunkSettings

VERSION = "1"

CHUNKER = "mail-1"

MARKS = re.compile(r"^[ \t]*(?:(?:>[ \t]?)+|[A-Za-z]{1,4}>+ ?)", re.MULTILINE)
QUOTED_HEADER = re.compile(
    r"(?:\bOn\b[^\n]{0,200}(?:\n[^\n]{0,100})?|[^\n]{0,120})"
    r"(?:\b(?:wrote|writes|schrieb[^\n:]*|a écrit|escribió|ha scritto|escreveu|schreef|napisał\(?a?\)?|"
    r"пишет|skrev|"
    r"napsala?)[ \t]?:?|は書きました。?|写道[::])[ \t]*|On (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[^\n]*"
)
PARAGRAPH = re.compile(r"\n(?:[ \t>]*\n)+")
SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|(?<=[。！？])")
LINE = re.compile(r"\n")
WORD = re.compile(r"\s+")
SUBSTANCE = re.compile(r"[^\W_]")
DIFF_MARK = re.compile(
    r"^(?:diff -|@@ -\d|\+\+\+ \S|--- \S+[./\t]|\*{15}|Index: \S|GIT binary patch)", re.MULTILINE
)
DIFF_FILE = re.compile(
    r"^(?:diff (?:-|a/)[^\n]*|Index: [^\n]+|(?:Modified|Added|Deleted): [^\n]+\n=|"
    r"\*\*\* [^\n*]+\n--- [^\n]+\n\*{15}|--- [^\n]+\n\+\+\+ )",
    re.MULTILINE,
)
DIFF_BODY = re.compile(r"^(?:@@ |\*{15}|GIT binary)", re.MULTILINE)
DIFF_HUNK = re.compile(r"^(?:@@ -\d[^\n]*|\*{15}[^\n]*)", re.MULTILINE)
FILE_NAME = re.compile(
    r"^(?:\+\+\+ (?P<new>[^\t\n]+)|diff --git a/\S+ b/(?P<git>[^\n]+)|Index: (?P<index>[^\n]+)|"
    r"\*\*\* (?P<old>[^\s*]+)|(?:Modified|Added|Deleted): (?P<svn>[^\n]+))",
    re.MULTILINE,
)
SUBJECT_NOISE = re.compile(
    r"^\s*(?:(?:re|fwd?|aw|sv|vs|antw|wg|odp|rif|tr|回复|答复|转发)(?:\[\d+\])?\s*[:：]|"
    r"\[(?![^\]]*\b(?:PATCH|RFC|BUG|GIT|ANNOUNCE)\b)[^\]\n]{1,30}\](?=\s*\S))\s*",
    re.IGNORECASE,
)
GREETING_CHARS = 80
BINARY_CLASSES = frozenset({"archive", "other"})


class ChunkTables(NamedTuple):
    """The chunks of a partition and what became no chunk."""

    chunks: pa.Table
    exclusions: pa.Table


class Piece(NamedTuple):
    """A half-open range of characters of a text, and the diff file and hunk it lies in."""

    start: int
    end: int
    context: str = ""


@dataclass(slots=True)
class Span:
    """A half-open range of characters of a body and the role it plays in a chunk."""

    start: int
    end: int
    role: str


@dataclass(slots=True)
class Unit:
    """Authored text between two quotes: its ranges, which are patch or code, and the quote it answers."""

    own: list[tuple[int, int, bool]] = field(default_factory=list)
    anchor: tuple[int, int] | None = None
    is_review: bool = False
    code_starts: list[int] = field(default_factory=list)
    code_before: list[int] = field(default_factory=list)

    def code_chars(self, start: int, end: int) -> int:
        """Characters of patch or code between two places."""
        if not self.code_starts:
            self.code_starts = [-1, *(a for a, _, c in self.own if c)]
            sizes = [0, *(b - a for a, b, c in self.own if c)]
            self.code_before = list(accumulate(sizes))
        return self._code_to(end) - self._code_to(start)

    def _code_to(self, place: int) -> int:
        i = bisect_right(self.code_starts, place) - 1
        size = self.code_before[i] - (self.code_before[i - 1] if i else 0)
        before = self.code_before[i] - size
        return before + min(size, place - self.code_starts[i])


def message_chunks(
    messages: pa.Table, blocks: pa.Table, attachments: pa.Table, settings: ChunkSettings
) -> ChunkTables:
    """Chunks of bodies and attachments, and the exclusions that account for every other byte.

    The tables conform to `schemas.CHUNKS` and `schemas.EXCLUSIONS` and are ordered by message, by
    attachment and by position. Rules 1 to 6, the chunk kinds and the default sizes are those of the
    pginbox design (seed 000). Spans are byte ranges of the stored body or attachment text; a chunk
    id depends on the document, the kind and the text, never on a position.
    """
    rows = _Rows(settings)
    mails = _frame(messages).sort("message_id", "source", "unit")
    columns = ("message_id", "kind", "quote_depth", "char_length", "byte_start")
    grouped = _frame(blocks.select([*columns, "block_index"])).sort(
        "message_id", "block_index", maintain_order=True
    )
    ids = grouped["message_id"].rle().struct.unnest()
    ends = ids["len"].cum_sum().to_list()
    where = {m: (e - n, e) for m, e, n in zip(ids["value"], ends, ids["len"], strict=True)}
    kinds, depths, lengths = (grouped[c].to_list() for c in ("kind", "quote_depth", "char_length"))
    subjects: dict[str, _Mail] = {}
    names = ("message_id", "content_hash", "source", "unit", "subject", "in_reply_to", "refs", "body")
    for values in zip(*(mails[n].to_list() for n in names), strict=True):
        mail = _Mail(*values)
        subjects.setdefault(mail.message_id, mail)
        first, last = where.get(mail.message_id, (0, 0))
        _Body(mail, kinds[first:last], depths[first:last], lengths[first:last], rows).emit()
    parts = _frame(attachments).sort("message_id", "part_index", "attachment_id")
    for part in parts.iter_rows(named=True):
        _emit_attachment(part, subjects.get(part["message_id"]), rows)
    return rows.tables()


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def title_of(subject: str) -> str:
    """The subject without reply marks and list tags; `[PATCH v2 1/3]` and the like stay."""
    title = subject
    while (found := SUBJECT_NOISE.match(title)) and found.end() > 0:
        title = title[found.end() :]
    return title.strip()


class _Mail(NamedTuple):
    message_id: str
    content_hash: str
    source: str
    unit: str
    subject: str
    in_reply_to: str | None
    refs: list[str] | None
    body: str

    @property
    def parent_id(self) -> str | None:
        return self.in_reply_to or (self.refs[-1] if self.refs else None)

    @property
    def is_reply(self) -> bool:
        return bool(self.parent_id) or self.subject[:3].lower() == "re:"


class _Offsets:
    """Characters of a text to UTF-8 bytes; ASCII text maps to itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = text.isascii()
        self.known: tuple[int, int] = (0, 0)

    def byte(self, char: int) -> int:
        """The byte offset of a character; cheap for rising offsets."""
        if self.plain:
            return char
        at, byte = self.known
        if char >= at:
            byte += len(self.text[at:char].encode())
        else:
            byte -= len(self.text[char:at].encode())
        self.known = (char, byte)
        return byte


class _Rows:
    """The growing columns of both tables."""

    def __init__(self, settings: ChunkSettings) -> None:
        self.settings = settings
        self.columns: dict[str, list[object]] = {
            c: []
            for c in CHUNKS.names
            if c not in ("spans", "heading_path", "chunk_count", "chunker", "added_lex", "removed_lex")
            and c not in ("anchor_source", "content_class")
            and c not in ("diff_files", "diff_functions", "lines_added", "lines_removed")
        }
        self.append = {name: column.append for name, column in self.columns.items()}
        self.counts: list[int] = []
        self.span_starts: list[int] = []
        self.span_ends: list[int] = []
        self.span_roles: list[str] = []
        self.span_offsets: list[int] = [0]
        self.excluded: dict[str, list[object]] = {name: [] for name in EXCLUSIONS.names}
        self.occurrences: dict[str, int] = {}

    def chunk_id(self, *parts: str) -> str:
        """The id of a chunk; equal parts are told apart by their occurrence number."""
        base = parts_hash(parts)
        seen = self.occurrences.get(base, 0)
        self.occurrences[base] = seen + 1
        return base if not seen else parts_hash((base, str(seen)))

    def add(self, spans: list[Span], offsets: _Offsets, **values: object) -> None:
        """One chunk; `values` are its columns but the spans."""
        for name, value in values.items():
            self.append[name](value)
        for span in spans:
            self.span_starts.append(offsets.byte(span.start))
            self.span_ends.append(offsets.byte(span.end))
            self.span_roles.append(span.role)
        self.span_offsets.append(len(self.span_starts))

    def close(self, count: int) -> None:
        """The last `count` chunks are all of their document."""
        self.counts.extend([count] * count)

    def exclude(self, mail: _Mail, attachment_id: str | None, start: int, end: int, reason: str) -> None:
        """One piece that became no chunk, in bytes."""
        values = (mail.message_id, attachment_id, mail.source, mail.unit, start, end, reason)
        for column, value in zip(self.excluded.values(), values, strict=True):
            column.append(value)

    def tables(self) -> ChunkTables:
        """Both tables, conforming to their schemas."""
        n = len(self.counts)
        roles = pa.array(self.span_roles, pa.string())
        struct = pa.StructArray.from_arrays(
            [pa.array(self.span_starts, pa.int64()), pa.array(self.span_ends, pa.int64()), roles],
            names=["byte_start", "byte_end", "role"],
        )
        built: dict[str, pa.Array] = {
            "spans": pa.ListArray.from_arrays(pa.array(self.span_offsets, pa.int32()), struct),
            "heading_path": pa.ListArray.from_arrays(
                pa.array([0] * (n + 1), pa.int32()), pa.array([], pa.string())
            ),
            "chunk_count": pa.array(self.counts, pa.int64()),
            "chunker": pa.array([CHUNKER] * n, pa.string()),
        }
        chunks = chunk_table({**self.columns, **built})
        excluded = pa.table(
            {
                name: pa.array(column, EXCLUSIONS.arrow.field(name).type)
                for name, column in self.excluded.items()
            }
        )
        return ChunkTables(chunks, EXCLUSIONS.conform(excluded))


class _Body:
    """One mail's body on its way from blocks to chunks."""

    def __init__(
        self, mail: _Mail, kinds: list[str], depths: list[int], lengths: list[int], rows: _Rows
    ) -> None:
        self.mail = mail
        self.rows = rows
        self.settings = rows.settings
        self.body = mail.body
        self.offsets = _Offsets(mail.body)
        self.kinds = kinds
        self.depths = depths
        self.starts = [0]
        for length in lengths:
            self.starts.append(self.starts[-1] + length)
        self.title = title_of(mail.subject)
        self.left: list[tuple[int, int, str]] = []
        self.emitted = 0

    def emit(self) -> None:
        """All chunks and exclusions of the body."""
        units = self._units()
        kept = [u for u in units if self._is_substantial(u)]
        if not kept:
            reason = "quote_only" if "quote" in self.kinds else "too_little_text"
            if not self.body.strip():
                reason = "empty"
            self.rows.exclude(self.mail, None, 0, len(self.body.encode()), reason)
            return
        for unit in units:
            if not self._is_substantial(unit):
                self.left.extend((a, b, "too_little_text") for a, b, _ in unit.own)
                if unit.anchor:
                    self.left.append((*unit.anchor, "unused_quote"))
        pairs = sum(1 for u in kept if u.anchor)
        for unit in kept:
            self._emit_unit(unit, pairs >= 2 or unit.is_review)
        self.rows.close(self.emitted)
        for start, end, reason in sorted(self.left):
            if end > start and not self.body[start:end].isspace():
                byte = self.offsets.byte
                self.rows.exclude(self.mail, None, byte(start), byte(end), reason)

    def _is_substantial(self, unit: Unit) -> bool:
        need = self.settings.min_authored_chars
        count = 0
        for start, end, _ in unit.own:
            for _found in SUBSTANCE.finditer(self.body, start, end):
                count += 1
                if count >= need:
                    return True
        return count >= need

    def _units(self) -> list[Unit]:
        """Runs of authored blocks with their anchors; what no unit takes is noted as left."""
        units: list[Unit] = []
        unit: Unit | None = None
        pending: list[int] = []
        for i, kind in enumerate(self.kinds):
            start, end = self.starts[i], self.starts[i + 1]
            if kind in ("author", "patch_or_code"):
                if unit is None:
                    unit = Unit(anchor=self._anchor(pending))
                    units.append(unit)
                    pending = []
                unit.own.append((start, end, kind == "patch_or_code"))
            elif kind == "quote":
                unit = None
                pending.append(i)
            elif kind == "header":
                unit = None
                self.left.append((start, end, "header"))
            elif kind == "signature":
                self.left.append((start, end, "signature"))
            elif unit is not None:
                unit.own.append((start, end, False))
        self._anchor(pending, unused=True)
        for one in units:
            while one.own and self.body[one.own[-1][0] : one.own[-1][1]].isspace():
                one.own.pop()
        return self._reviews(self._greetings(units))

    def _greetings(self, units: list[Unit]) -> list[Unit]:
        """A short salutation above the first quote belongs to the reply below it."""
        if len(units) < 2 or units[0].anchor or not units[1].anchor:
            return units
        first = units[0]
        start, end = first.own[0][0], first.own[-1][1]
        text = self.body[start:end].strip()
        if len(text) <= GREETING_CHARS and "\n" not in text and not text.endswith((".", "?")):
            units[1].own[:0] = first.own
            return units[1:]
        return units

    def _reviews(self, units: list[Unit]) -> list[Unit]:
        """Unquoted hunks that are followed by a comment become the anchors of their comments."""
        opens_with_patch = "patch_or_code" in self.kinds[:2] and "author" not in self.kinds[:1]
        if not (self.mail.is_reply or opens_with_patch):
            return units
        out: list[Unit] = []
        for unit in units:
            out.extend(self._review_pairs(unit))
        return out

    def _review_pairs(self, unit: Unit) -> Iterator[Unit]:
        current = Unit(anchor=unit.anchor)
        commented: list[bool] = []
        below_is_prose = False
        for start, end, is_code in reversed(unit.own):
            commented.append(is_code and below_is_prose)
            below_is_prose = below_is_prose if self.body[start:end].isspace() else not is_code
        for (start, end, is_code), has_comment in zip(unit.own, reversed(commented), strict=True):
            if (
                has_comment
                and end - start <= self.settings.anchor_chars_short
                and DIFF_MARK.search(self.body, start, end)
            ):
                if any(not self.body[a:b].isspace() for a, b, _ in current.own):
                    yield current
                elif current.anchor:
                    self.left.append((*current.anchor, "unused_quote"))
                current = Unit(anchor=(start, end), is_review=True)
            else:
                current.own.append((start, end, is_code))
        yield current

    def _anchor(self, pending: list[int], unused: bool = False) -> tuple[int, int] | None:
        """The range of the last depth-1 quote among `pending`; the others are noted as left."""
        found: tuple[int, int] | None = None
        for i in reversed(pending):
            start, end = self.starts[i], self.starts[i + 1]
            if self.depths[i] > 1:
                self.left.append((start, end, "deep_quote"))
                continue
            if found is None and not unused:
                header = self._quoted_header(start, end) if i + 1 < len(self.kinds) else end
                if SUBSTANCE.search(unmarked(self.body[start:header])):
                    found = (start, header)
                    if header < end:
                        self.left.append((header, end, "header"))
                    continue
            self.left.append((start, end, "unused_quote"))
        return found

    def _quoted_header(self, start: int, end: int) -> int:
        """Where the quoted reply header at the end of a quote begins; `end` if there is none."""
        text = self.body[start:end].rstrip("\n> \t")
        line = text.rfind("\n") + 1
        previous = text.rfind("\n", 0, max(line - 1, 0)) + 1
        for at in (previous, line):
            if QUOTED_HEADER.fullmatch(unmarked(text[at:]).strip()):
                return start + at
        return end

    def _emit_unit(self, unit: Unit, review: bool) -> None:
        own = [(a, b, c) for a, b, c in _joined(unit.own)]
        text = "".join(self.body[a:b] for a, b, _ in own).strip()
        anchor = self._capped(unit.anchor, len(text))
        if len(text) <= self.settings.message_chars:
            kind = "authored_message"
            if anchor:
                kind = "review_pair" if review else "quote_reply_pair"
            spans = [Span(a, b, "own") for a, b, _ in own]
            self._chunk(kind, spans, anchor, unit, "")
            return
        for number, piece in enumerate(self._pieces(own)):
            spans = [Span(piece.start, piece.end, "own")]
            self._chunk("long_authored_segment", spans, anchor if number == 0 else None, unit, piece.context)

    def _pieces(self, own: list[tuple[int, int, bool]]) -> Iterator[Piece]:
        """Pieces of a long unit: diffs by file and hunk, prose by paragraphs."""
        total = sum(b - a for a, b, _ in own)
        for start, end, is_diff in self._sections(own):
            if is_diff:
                yield from diff_pieces(
                    self.body, start, end, self.settings.message_chars, self.settings.message_chars
                )
            else:
                recursive = total > self.settings.recursive_chars
                yield from text_pieces(
                    self.body,
                    start,
                    end,
                    self.settings.message_chars,
                    self.settings.overlap_chars,
                    recursive,
                    self.settings.recursive_chars,
                )

    def _sections(self, own: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int, bool]]:
        """Neighbouring ranges joined, diffs apart from prose (code that is no diff is prose)."""
        current: tuple[int, int, bool] | None = None
        for start, end, is_diff in self._split_at_files(own):
            blank = self.body[start:end].isspace()
            if current and current[1] == start and (is_diff == current[2] or blank):
                current = (current[0], end, current[2])
            else:
                if current:
                    yield current
                current = (start, end, is_diff)
        if current:
            yield current

    def _split_at_files(self, own: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int, bool]]:
        """Ranges, with code cut where its first diff begins: the diffstat above belongs to the prose."""
        for start, end, is_code in own:
            if not is_code:
                yield start, end, False
                continue
            found = DIFF_FILE.search(self.body, start, end) or DIFF_HUNK.search(self.body, start, end)
            if found is None:
                yield start, end, False
                continue
            if found.start() > start:
                yield start, found.start(), False
            yield found.start(), end, True

    def _capped(self, anchor: tuple[int, int] | None, own_chars: int) -> tuple[int, int] | None:
        """The end of the anchor that fits the cap, cut at a line; the rest is noted as left."""
        if anchor is None:
            return None
        start, end = anchor
        short = own_chars < self.settings.short_reply_chars
        cap = self.settings.anchor_chars_short if short else self.settings.anchor_chars
        keep = end
        size = 0
        while keep > start:
            line = self.body.rfind("\n", start, keep - 1) + 1 or start
            line = max(line, start)
            added = len(unmarked(self.body[line:keep]).rstrip("\n")) + (1 if size else 0)
            if size + added > cap:
                if not size:
                    keep = self._word_start(max(line, keep - cap), keep)
                break
            size += added
            keep = line
        if keep > start:
            self.left.append((start, keep, "unused_quote"))
        if keep < end and SUBSTANCE.search(self.body, keep, end):
            return keep, end
        self._dropped(keep, end)
        return None

    def _word_start(self, start: int, end: int) -> int:
        """The first start of a sentence, else of a word, behind `start`; `start` if there is none."""
        for boundary in (SENTENCE, WORD):
            found = boundary.search(self.body, start, end)
            if found and found.end() < end:
                return found.end()
        return start

    def _dropped(self, start: int, end: int) -> None:
        self.left.append((start, end, "unused_quote"))

    def _chunk(
        self, kind: str, own: list[Span], anchor: tuple[int, int] | None, unit: Unit, context: str
    ) -> None:
        """One chunk of the body; ranges without substance are noted as left."""
        own_text = "\n".join(self._text(a, b) for a, b in _merged(own)).strip("\n")
        if not SUBSTANCE.search(own_text):
            self.left.extend((s.start, s.end, "too_little_text") for s in own)
            if anchor:
                self._dropped(*anchor)
            return
        point = ""
        spans = list(own)
        if anchor:
            raw = self.body[anchor[0] : anchor[1]]
            point = raw.strip("\n") if unit.is_review else unmarked(raw).strip("\n").rstrip()
            spans.append(Span(*anchor, "anchor"))
            spans.sort(key=lambda s: s.start)
        display = self._display(spans)
        said = _trimmed(own_text)
        embed = f"{context}\n{said}" if context and not said.startswith(context) else said
        if anchor:
            embed = f"Quoted point:\n{_trimmed(point)}\n\nReply:\n{embed}"
        if self.settings.embed_subject and self.title:
            embed = f"Subject: {self.title}\n\n{embed}"
        code = sum(unit.code_chars(s.start, s.end) for s in own)
        mail = self.mail
        short = len(said) < self.settings.short_reply_chars
        self.rows.add(
            spans,
            self.offsets,
            chunk_id=self.rows.chunk_id("message", mail.message_id, mail.content_hash, kind, display),
            source_kind="message",
            source=mail.source,
            unit=mail.unit,
            doc_id=mail.message_id,
            attachment_id=None,
            parent_id=mail.parent_id,
            chunk_kind=kind,
            chunk_index=self.emitted,
            title=self.title,
            text_display=display,
            text_embed=embed,
            text_lex=own_text,
            quote_lex=point,
            char_count=len(display),
            quote_anchor_chars=len(point),
            quote_depth_max=1 if anchor and not unit.is_review else 0,
            has_patch_markers=bool(context or DIFF_MARK.search(own_text) or DIFF_MARK.search(point)),
            is_quote_heavy=len(point) > len(said),
            is_code=2 * code > sum(s.end - s.start for s in own),
            lane="slow" if len(self.body) > self.settings.slow_body_chars else "fast",
            needs_parent=short and not anchor and kind == "authored_message" and bool(mail.in_reply_to),
            checksum=text_hash(embed),
        )
        self.emitted += 1

    def _text(self, start: int, end: int) -> str:
        return self.body[start:end].rstrip("\n")

    def _display(self, spans: list[Span]) -> str:
        """The ranges as they stand in the body, with one blank line where something is left out."""
        parts: list[str] = []
        for start, end in _merged(spans):
            parts.append(self.body[start:end].strip("\n"))
        return "\n\n".join(parts)


def _trimmed(text: str) -> str:
    """Text without blank lines at both ends and without blanks at its end."""
    return text.strip("\n").rstrip()


def _merged(spans: list[Span]) -> list[tuple[int, int]]:
    """Ranges of adjacent spans joined."""
    out: list[tuple[int, int]] = []
    for span in spans:
        if out and out[-1][1] == span.start:
            out[-1] = (out[-1][0], span.end)
        else:
            out.append((span.start, span.end))
    return out


def _joined(own: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Adjacent ranges of one class joined."""
    out: list[tuple[int, int, bool]] = []
    for start, end, is_code in own:
        if out and out[-1][1] == start and out[-1][2] == is_code:
            out[-1] = (out[-1][0], end, is_code)
        else:
            out.append((start, end, is_code))
    return out


def unmarked(text: str) -> str:
    """Quoted lines without their quote marks."""
    return MARKS.sub("", text)


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


def diff_pieces(text: str, start: int, end: int, limit: int, bound: int) -> Iterator[Piece]:
    """Pieces of a diff that cover it without overlap: by file, then by hunk, then by lines.

    The context of a piece is the file's name, and the hunk's header for what begins inside a hunk.
    """
    files = [m.start() for m in DIFF_FILE.finditer(text, start, end)]
    edges = sorted({start, *_file_edges(text, files), end})
    for a, b in pairwise(edges):
        name = _file_name(text, a, b)
        if b - a <= limit:
            yield Piece(a, b, name)
            continue
        yield from _hunk_pieces(text, a, b, bound, name)


def _file_edges(text: str, files: list[int]) -> list[int]:
    """Starts of files; the `---` line that follows a `diff` or `Index:` line opens no second file."""
    out: list[int] = []
    for at in files:
        inner = (
            ("--- ", "*** ", "diff ") if out and not text.startswith("diff ", out[-1]) else ("--- ", "*** ")
        )
        framed = text.startswith(inner, at) and out and not _has_body(text, out[-1], at)
        if not framed:
            out.append(at)
    return out


def _has_body(text: str, start: int, end: int) -> bool:
    return end - start > 2000 or bool(DIFF_BODY.search(text, start, end))


def _file_name(text: str, start: int, end: int) -> str:
    head = text[start : min(end, start + 2000)]
    best = ""
    for found in FILE_NAME.finditer(head):
        name = next(v for v in found.groups() if v is not None).strip()
        if name == "/dev/null":
            continue
        best = best or (name[2:] if name.startswith("b/") else name)
    return best


def _hunk_pieces(text: str, start: int, end: int, limit: int, name: str) -> Iterator[Piece]:
    """Neighbouring hunks of one file packed up to `limit`; a longer hunk is cut at lines."""
    hunks = [(m.start(), m.group()) for m in DIFF_HUNK.finditer(text, start, end)]
    edges = [start, *(a for a, _ in hunks if a > start), end]
    headers = dict(hunks)
    begin = edges[0]
    for a, b in pairwise(edges):
        if b - begin > limit and a > begin and (begin in headers or a != edges[1]):
            yield Piece(begin, a, name)
            begin = a
        if b - begin > limit:
            label = f"{name}\n{headers[a]}" if a in headers else name
            for number, (c, d) in enumerate(line_windows(text, begin, b, limit)):
                yield Piece(c, d, label if number else name)
            begin = b
    if begin < end:
        yield Piece(begin, end, name)


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
    begin = 0
    edges = [m.end() for m in PARAGRAPH.finditer(text)]
    for a, b in pairwise([0, *edges, len(text)]):
        if b - begin > limit and a > begin:
            yield Piece(begin, a)
            begin = a
        if b - begin > limit:
            yield from (Piece(c, d) for c, d in line_windows(text, begin, b, limit))
            begin = b
    if begin < len(text):
        yield Piece(begin, len(text))


def _emit_attachment(part: dict[str, object], mail: _Mail | None, rows: _Rows) -> None:
    """The chunks of one attachment, or the reason why there are none."""
    message_id, source, unit = str(part["message_id"]), str(part["source"]), str(part["unit"])
    mail = mail or _Mail(message_id, "", source, unit, "", None, None, "")
    owner = mail._replace(source=source, unit=unit)
    ident = str(part["attachment_id"])
    text = part["text"]
    if not isinstance(text, str):
        reason = "binary" if part["content_class"] in BINARY_CLASSES else "no_text"
        size = part["byte_count"]
        rows.exclude(owner, ident, 0, size if isinstance(size, int) else 0, reason)
        return
    settings = rows.settings
    if part["content_class"] == "patch":
        if len(text) <= settings.attachment_chars:
            pieces = [Piece(0, len(text), _file_name(text, 0, len(text)))]
        else:
            pieces = list(
                diff_pieces(text, 0, len(text), settings.attachment_chars, settings.attachment_chars)
            )
    else:
        pieces = list(section_pieces(text, settings.attachment_chars))
    offsets = _Offsets(text)
    kept = [p for p in pieces if SUBSTANCE.search(text, p.start, p.end)]
    for piece in pieces:
        if not SUBSTANCE.search(text, piece.start, piece.end) and not text[piece.start : piece.end].isspace():
            rows.exclude(owner, ident, offsets.byte(piece.start), offsets.byte(piece.end), "too_little_text")
    if not text.strip():
        rows.exclude(owner, ident, 0, len(text.encode()), "empty")
    for index, piece in enumerate(kept):
        _attachment_chunk(part, owner, rows, text, offsets, index, piece)
    rows.close(len(kept))


def _attachment_chunk(
    part: dict[str, object],
    mail: _Mail,
    rows: _Rows,
    text: str,
    offsets: _Offsets,
    index: int,
    piece: Piece,
) -> None:
    display = text[piece.start : piece.end].strip("\n")
    filename = str(part["filename"] or "")
    subject = title_of(mail.subject)
    title = " · ".join(t for t in (subject, filename) if t)
    heads = [h for h in (filename, piece.context) if h]
    embed = "\n".join([*heads, display])
    if rows.settings.embed_subject and subject:
        embed = f"Subject: {subject}\n\n{embed}"
    rows.add(
        [Span(piece.start, piece.end, "own")],
        offsets,
        chunk_id=rows.chunk_id(
            "attachment", mail.message_id, str(part["attachment_id"]), "attachment_segment", display
        ),
        source_kind="attachment",
        source=mail.source,
        unit=mail.unit,
        doc_id=mail.message_id,
        attachment_id=part["attachment_id"],
        parent_id=mail.parent_id,
        chunk_kind="attachment_segment",
        chunk_index=index,
        title=title,
        text_display=display,
        text_embed=embed,
        text_lex=display,
        quote_lex="",
        char_count=len(display),
        quote_anchor_chars=0,
        quote_depth_max=0,
        has_patch_markers=bool(piece.context or DIFF_MARK.search(display)),
        is_quote_heavy=False,
        is_code=part["content_class"] in ("patch", "code", "log"),
        lane=part["lane"],
        needs_parent=False,
        checksum=text_hash(embed),
    )
