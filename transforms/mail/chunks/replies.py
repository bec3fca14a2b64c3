"""One mail's body from its blocks to drafts: which authored text answers which quote (the pginbox design, rules 1 to 6)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from transforms.mail.chunks import sizes
from transforms.mail.chunks.drafts import QUOTE_MARKS, Draft, Drafts
from transforms.settings.mail import ChunkSettings
from transforms.text.diffs import binary_ranges, diff_pieces, first_diff, is_diff_text
from transforms.text.pieces import SENTENCE, WORD, Piece, text_pieces
from transforms.text.spans import SUBSTANCE, ByteOffsets, Span, merged, shown

MARKS = re.compile(QUOTE_MARKS)
QUOTED_HEADER = re.compile(
    r"(?:\bOn\b[^\n]{0,200}(?:\n[^\n]{0,100})?|[^\n]{0,120})"
    r"(?:\b(?:wrote|writes|schrieb[^\n:]*|a écrit|escribió|ha scritto|escreveu|schreef|napisał\(?a?\)?|"
    r"пишет|skrev|"
    r"napsala?)[ \t]?:?|は書きました。?|写道[::])[ \t]*|On (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[^\n]*"
)
GREETING_CHARS = 80
"""A longer line above the first quote is no salutation."""

AUTHOR, CODE, QUOTE, HEADER, SIGNATURE, BLANK = range(6)
KINDS = {
    "author": AUTHOR, "patch_or_code": CODE, "quote": QUOTE, "header": HEADER, "signature": SIGNATURE, "blank": BLANK,
}  # fmt: skip


class Part(NamedTuple):
    """A half-open range of authored characters, and whether it is patch or code, and a diff."""

    start: int
    end: int
    is_code: bool
    is_diff: bool = False


class Unit:
    """Authored text between two quotes: its parts, and the quote or hunk that it answers."""

    __slots__ = ("anchor", "is_review", "own")

    def __init__(self, anchor: tuple[int, int] | None, is_review: bool = False) -> None:
        self.own: list[Part] = []
        self.anchor = anchor
        self.is_review = is_review


def unmarked(text: str) -> str:
    """Quoted lines without their quote marks."""
    return MARKS.sub("", text)


class Body:
    """One body on its way to drafts; `kinds` are numbers of KINDS, `starts` the edges of its blocks."""

    def __init__(
        self,
        body: str,
        kinds: list[int],
        depths: list[int],
        starts: list[int],
        is_reply: bool,
        body_format: str,
        settings: ChunkSettings,
    ) -> None:
        self.body, self.kinds, self.depths, self.starts = body, kinds, depths, starts
        self.is_reply, self.body_format, self.settings = is_reply, body_format, settings
        self.offsets = ByteOffsets(body)
        self.left: list[tuple[int, int, str]] = []

    def _shown(self, spans: list[Span], gap: str = "\n\n") -> str:
        return shown(self.body, spans, gap, self.body_format)

    def emit(self, drafts: Drafts) -> None:
        """All drafts and exclusions of the body."""
        units = self._units()
        kept = []
        for unit in units:
            if self._is_substantial(unit):
                kept.append(unit)
                continue
            self.left.extend((p.start, p.end, "too_little_text") for p in unit.own)
            if unit.anchor:
                self.left.append((*unit.anchor, "unused_quote"))
        if not kept:
            reason = "quote_only" if QUOTE in self.kinds else "too_little_text"
            drafts.exclude(0, self.offsets(len(self.body)), reason if self.body.strip() else "empty")
            return
        self.drafts = drafts
        pairs = sum(1 for u in kept if u.anchor)
        if self.settings.policy == "message":
            whole = Unit(None)
            whole.own = [part for u in kept for part in u.own]
            self._emit_unit(whole, False, sizes.RECURSIVE_CHARS)
            kept = [u for u in kept if u.anchor]
        for unit in kept:
            self._emit_unit(unit, pairs >= 2 or unit.is_review, self.settings.message_chars)
        for start, end, reason in sorted(self.left):
            if end > start and not self.body[start:end].isspace():
                drafts.exclude(self.offsets(start), self.offsets(end), reason)

    def _is_substantial(self, unit: Unit) -> bool:
        return any(SUBSTANCE.search(self.body, p.start, p.end) for p in unit.own)

    def _units(self) -> list[Unit]:
        """Runs of authored blocks with their anchors; what no unit takes is noted as left."""
        units: list[Unit] = []
        unit: Unit | None = None
        pending: list[int] = []
        starts = self.starts
        reach = -1
        for i, kind in enumerate(self.kinds):
            if kind <= CODE:
                if unit is None:
                    unit = Unit(self._anchor(pending) if pending else None)
                    units.append(unit)
                    pending = []
                _extend(unit.own, starts[i], starts[i + 1], kind == CODE, reach)
                reach = starts[i + 1]
            elif kind == QUOTE:
                unit = None
                pending.append(i)
            elif kind == HEADER:
                unit = None
                self.left.append((starts[i], starts[i + 1], "header"))
            elif kind == SIGNATURE:
                self.left.append((starts[i], starts[i + 1], "signature"))
            elif reach == starts[i]:
                reach = starts[i + 1]
        self._anchor(pending, unused=True)
        if CODE in self.kinds:
            units = self._reviews(self._without_binaries(self._greetings(units)))
            for one in units:
                one.own = list(self._parted(one.own))
            return units
        return self._greetings(units)

    def _without_binaries(self, units: list[Unit]) -> list[Unit]:
        """The encoded bytes of binary files are no text."""
        holes = binary_ranges(self.body)
        for unit in units if holes else ():
            own: list[Part] = []
            for part in unit.own:
                at = part.start
                for start, end in holes:
                    if part.is_code and start < part.end and end > at:
                        if start > at:
                            own.append(part._replace(start=at, end=start))
                        self.left.append((max(start, at), min(end, part.end), "binary"))
                        at = min(end, part.end)
                if at < part.end:
                    own.append(part._replace(start=at))
            unit.own = own
        return units

    def _greetings(self, units: list[Unit]) -> list[Unit]:
        """A short salutation above the first quote belongs to the reply below it."""
        if len(units) < 2 or units[0].anchor or not units[1].anchor or not units[0].own:
            return units
        first = units[0]
        text = self.body[first.own[0].start : first.own[-1].end].strip()
        if len(text) <= GREETING_CHARS and "\n" not in text and not text.endswith((".", "?")):
            units[1].own[:0] = first.own
            return units[1:]
        return units

    def _reviews(self, units: list[Unit]) -> list[Unit]:
        """Unquoted hunks that are followed by a comment become the anchors of their comments."""
        opens_with_patch = CODE in self.kinds[:2] and self.kinds[0] != AUTHOR
        if not (self.is_reply or opens_with_patch):
            return units
        return [pair for unit in units for pair in self._review_pairs(unit)]

    def _review_pairs(self, unit: Unit) -> Iterator[Unit]:
        current = Unit(unit.anchor)
        commented: list[bool] = []
        below_is_prose = False
        for start, end, is_code, _ in reversed(unit.own):
            commented.append(is_code and below_is_prose)
            below_is_prose = below_is_prose if self.body[start:end].isspace() else not is_code
        for part, has_comment in zip(unit.own, reversed(commented), strict=True):
            if (
                has_comment
                and part.end - part.start <= sizes.ANCHOR_CHARS_SHORT
                and is_diff_text(self.body, part.start, part.end)
            ):
                if any(not self.body[p.start : p.end].isspace() for p in current.own):
                    yield current
                elif current.anchor:
                    self.left.append((*current.anchor, "unused_quote"))
                current = Unit((part.start, part.end), is_review=True)
            else:
                current.own.append(part)
        yield current

    def _parted(self, own: list[Part]) -> Iterator[Part]:
        """Parts, with code cut where its first diff begins: the diffstat above belongs to the prose."""
        for part in own:
            at = first_diff(self.body, part.start, part.end) if part.is_code else None
            if at is None:
                yield part
                continue
            if at > part.start:
                yield part._replace(end=at)
            yield Part(at, part.end, True, True)

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

    def _emit_unit(self, unit: Unit, review: bool, limit: int) -> None:
        spans = [Span(p.start, p.end, "own") for p in unit.own]
        text = self._shown(spans, "\n")
        anchor = self._capped(unit.anchor, len(text.strip()))
        if len(text.strip()) <= limit:
            kind = "authored_message"
            if anchor:
                kind = "review_pair" if review else "quote_reply_pair"
            self._draft(kind, unit.own, text, anchor, unit)
            return
        part_starts = [p.start for p in unit.own]
        for piece in self._pieces(unit.own, limit):
            own = list(_cut(unit.own, part_starts, piece.start, piece.end))
            shown_piece = self._shown([Span(piece.start, piece.end, "own")])
            if self._draft("long_authored_segment", own, shown_piece, anchor, unit, piece):
                anchor = None
        if anchor:
            self.left.append((*anchor, "unused_quote"))

    def _pieces(self, own: list[Part], limit: int) -> Iterator[Piece]:
        """Pieces of a long unit: diffs by file and hunk, prose by paragraphs."""
        total = sum(p.end - p.start for p in own)
        recursive = total > sizes.RECURSIVE_CHARS
        for start, end, is_diff in self._sections(own):
            if is_diff:
                yield from diff_pieces(
                    self.body, start, end, self.settings.message_chars, sizes.PATCH_CHARS, sizes.PATCH_HUNKS
                )
            else:
                yield from text_pieces(
                    self.body, start, end, limit, sizes.OVERLAP_CHARS, recursive, sizes.RECURSIVE_CHARS
                )

    def _sections(self, own: list[Part]) -> Iterator[tuple[int, int, bool]]:
        """Neighbouring parts joined, diffs apart from prose (code that is no diff is prose)."""
        current: tuple[int, int, bool] | None = None
        for start, end, _, is_diff in own:
            if current and current[1] == start and (is_diff == current[2] or self.body[start:end].isspace()):
                current = (current[0], end, current[2])
            else:
                if current:
                    yield current
                current = (start, end, is_diff)
        if current:
            yield current

    def _capped(self, anchor: tuple[int, int] | None, own_chars: int) -> tuple[int, int] | None:
        """The end of the anchor that fits the cap, cut at a line; the rest is noted as left."""
        if anchor is None:
            return None
        start, end = anchor
        short = own_chars < sizes.SHORT_REPLY_CHARS
        cap = sizes.ANCHOR_CHARS_SHORT if short else sizes.ANCHOR_CHARS
        keep = start if end - start <= cap else self._fitting(start, end, cap)
        if keep > start:
            self.left.append((start, keep, "unused_quote"))
        if keep < end and SUBSTANCE.search(self.body, keep, end):
            return keep, end
        self.left.append((keep, end, "unused_quote"))
        return None

    def _fitting(self, start: int, end: int, cap: int) -> int:
        """Where the last lines that hold at most `cap` characters without their marks begin."""
        keep, size = end, 0
        while keep > start:
            line = max(self.body.rfind("\n", start, keep - 1) + 1, start)
            added = len(unmarked(self.body[line:keep]).rstrip("\n")) + (1 if size else 0)
            if size + added > cap:
                return keep if size else self._word_start(max(line, keep - cap), keep)
            size += added
            keep = line
        return keep

    def _word_start(self, start: int, end: int) -> int:
        """The first start of a sentence, else of a word, behind `start`; `start` if there is none."""
        for boundary in (SENTENCE, WORD):
            found = boundary.search(self.body, start, end)
            if found and found.end() < end:
                return found.end()
        return start

    def _draft(
        self,
        kind: str,
        own: list[Part],
        text: str,
        anchor: tuple[int, int] | None,
        unit: Unit,
        piece: Piece | None = None,
    ) -> bool:
        """Add one chunk and say so; parts without substance are noted as left."""
        if not SUBSTANCE.search(text):
            self.left.extend((p.start, p.end, "too_little_text") for p in own)
            if anchor and piece is None:
                self.left.append((*anchor, "unused_quote"))
            return False
        is_plain = len(own) == 1 and not own[0].is_code
        spans = [Span(own[0].start, own[0].end, "own")] if is_plain else _joined(own)
        point, display = "", None
        if anchor:
            point = self._shown([Span(*anchor, "anchor")])
            spans = sorted([*spans, Span(*anchor, "anchor")])
            display = self._shown(spans)
        elif len(spans) > 1:
            display = self._shown(spans)
        diff = prose = ""
        diffs = [] if is_plain else [Span(p.start, p.end, "own") for p in own if p.is_diff]
        if diffs:
            diff = self._shown(diffs, "\n")
            prose = self._shown([Span(p.start, p.end, "own") for p in own if not p.is_diff], "\n")
        draft = Draft(
            kind,
            text,
            display,
            point,
            unit.is_review and bool(anchor),
            piece.file if piece else "",
            piece.hunk if piece else "",
            diff,
            prose,
            "text" if is_plain else _class(own),
        )
        self.drafts.add(draft, spans, self.offsets)
        return True


def _extend(own: list[Part], start: int, end: int, is_code: bool, reach: int) -> None:
    """Add a block to the parts of a unit; `reach` is where the last part and the blank lines below it end."""
    if own and reach == start:
        last = own[-1]
        if not last.is_code and not is_code:
            own[-1] = Part(last.start, end, False)
            return
        own[-1] = Part(last.start, start, last.is_code)
    own.append(Part(start, end, is_code))


def _cut(own: list[Part], starts: list[int], start: int, end: int) -> Iterator[Part]:
    """The parts of a unit between two places; `starts` are those of the parts."""
    i = max(bisect_right(starts, start) - 1, 0)
    while i < len(own) and own[i].start < end:
        part = own[i]
        if part.end > start:
            yield part._replace(start=max(part.start, start), end=min(part.end, end))
        i += 1


def _joined(own: list[Part]) -> list[Span]:
    """Parts as spans, adjacent ones joined."""
    return [Span(a, b, "own") for a, b in merged(Span(p.start, p.end, "own") for p in own)]


def _class(own: list[Part]) -> str:
    """What most of the characters are: patch, code or text."""
    sizes = {"patch": 0, "code": 0, "text": 0}
    for start, end, is_code, is_diff in own:
        sizes["patch" if is_diff else "code" if is_code else "text"] += end - start
    if sizes["patch"] + sizes["code"] <= sizes["text"]:
        return "text"
    return "patch" if sizes["patch"] >= sizes["code"] else "code"
