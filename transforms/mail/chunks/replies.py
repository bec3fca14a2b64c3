"""One mail's body from its blocks to drafts: which authored text answers which quote (pginbox,
rules 1 to 6).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from transforms.mail.chunks import attachments
from transforms.mail.chunks.attachments import (
    ReviewedPlaces,
    Section,
    content_class,
    extend,
    sections_between,
)
from transforms.mail.chunks.drafts import QUOTE_SIGNS, Draft, Drafts
from transforms.schemas.kinds import UNAUTHORED
from transforms.settings.mail import ChunkSettings
from transforms.signs import sign_pattern
from transforms.text.diffs import binary_ranges, diff_segments, first_diff, is_diff_text
from transforms.text.segments import SENTENCE, SPACES, ProseLimits, TextSegment, prose_segments
from transforms.text.spans import SUBSTANCE, Offsets, Span, display_text, merged_ranges

MARKS = re.compile(QUOTE_SIGNS)
QUOTED_HEADER = re.compile(
    r"(?:\bOn\b[^\n]{0,200}(?:\n[^\n]{0,100})?|[^\n]{0,120})"
    r"(?:\b(?:wrote|writes|schrieb[^\n:]*|a écrit|escribió|ha scritto|escreveu|schreef|napisał\(?a?\)?|"
    r"пишет|skrev|napsala?)[ \t]?:?|は書きました。?|写道[::])[ \t]*|On (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[^\n]*"
)
CUT_MARKS = re.compile(
    r"(?i)(?:[ \t]*(?:\.{3,}|…|[\[(<{][ \t]*(?:\.{2,}|…|(?:[a-z]+ ){0,3}(?:snip|cut|trim|skip|delet|elid|omit|remov))"
    r"[^\])>}\n]{0,30}[\])>}]|[-=*_]* ?snip(?:ped)? ?[-=*_]*)[ \t]*(?:\n(?:[ \t]*\n)*|\Z))+"
)
"""Lines that say that a quote is cut here, as `[...]` and `<snip>`."""
GREETING_CHARS = 80
"""A longer line above the first quote is not a salutation."""
SALUTATION = re.compile(
    rf"\s*(?i:{sign_pattern(('greeting',))})"
    r"(?:[ ,]+(?:[A-Z][\w.'-]*|(?i:all|everyone|everybody|folks|there|guys|list|both|and|again|team|sir|madam)|&))*"
    r"[\s,.!…:-]*"
)
"""Nothing but a salutation, which answers no search."""

AUTHOR, CODE, QUOTE, HEADER, SIGNATURE, BLANK = range(6)
BLOCK_KINDS = {
    "author": AUTHOR,
    "patch_or_code": CODE,
    "quote": QUOTE,
    "header": HEADER,
    "signature": SIGNATURE,
    "blank": BLANK,
}


@dataclass(slots=True)
class Reply:
    """Authored text between two quotes: its sections, and the quote or hunk that it answers."""

    anchor: tuple[int, int] | None
    is_review: bool = False
    sections: list[Section] = field(default_factory=list)


class BodyBlocks(NamedTuple):
    """The blocks of one body: their kinds (numbers of KINDS), quote depths and edges in characters.

    There is one edge more than there are blocks.
    """

    kinds: list[int]
    depths: list[int]
    edges: list[int]


class Body:
    """One body and its blocks; `emit` turns them into drafts and exclusions."""

    def __init__(
        self,
        body: str,
        blocks: BodyBlocks,
        is_reply: bool,
        body_format: str,
        settings: ChunkSettings,
    ) -> None:
        self.body, self.is_reply, self.body_format, self.settings = (
            body,
            is_reply,
            body_format,
            settings,
        )
        self.kinds, self.depths, self.edges = blocks
        self.offsets = Offsets(body)
        self.reviewed = ReviewedPlaces(body)
        self.exclusions: list[tuple[int, int, str]] = []

    def _exclude(self, start: int, end: int, reason: str) -> None:
        self.exclusions.append((start, end, reason))

    def _exclude_sections(self, sections: list[Section]) -> None:
        self.exclusions.extend((s.start, s.end, "too_little_text") for s in sections)

    def _display(self, spans: list[Span], gap: str = "\n\n") -> str:
        return display_text(self.body, spans, gap, self.body_format)

    def emit(self, drafts: Drafts) -> None:
        """Add all drafts and exclusions of the body to `drafts`."""
        answers = []
        for reply in self._replies():
            if any(SUBSTANCE.search(self.body, s.start, s.end) for s in reply.sections):
                answers.append(reply)
                continue
            self._exclude_sections(reply.sections)
            if reply.anchor:
                self._exclude(*reply.anchor, "unused_quote")
        if not answers:
            self._emit_unauthored(drafts)
            return
        self.drafts = drafts
        anchored = [r for r in answers if r.anchor]
        if self.settings.policy == "message":
            message = Reply(None, sections=[section for r in answers for section in r.sections])
            self._emit_reply(message, False, self.settings.recursive_chars)
            answers = anchored
        for reply in answers:
            self._emit_reply(
                reply, len(anchored) >= 2 or reply.is_review, self.settings.message_chars
            )
        for start, end, reason in sorted(self.exclusions):
            if end > start and not self.body[start:end].isspace():
                drafts.exclude(self.offsets(start), self.offsets(end), reason, self.body[start:end])

    def _emit_unauthored(self, drafts: Drafts) -> None:
        """Add one chunk of the whole body, which quotes and signs alone, or an exclusion if it has
        no words either.
        """
        if SUBSTANCE.search(self.body):
            draft = Draft(UNAUTHORED, "", self._display([Span(0, len(self.body), "anchor")]))
            drafts.add(draft, [Span(0, len(self.body), "anchor")], self.offsets)
        else:
            reason = "too_little_text" if self.body.strip() else "empty"
            drafts.exclude(0, self.offsets(len(self.body)), reason)

    def _replies(self) -> list[Reply]:
        """Runs of authored blocks with their anchors; the other blocks become exclusions."""
        replies: list[Reply] = []
        reply: Reply | None = None
        pending: list[int] = []
        edges = self.edges
        reach = -1
        for i, kind in enumerate(self.kinds):
            start = edges[i]
            if (
                kind == AUTHOR
                and reply is None
                and (cut := CUT_MARKS.match(self.body, start, edges[i + 1]))
            ):
                start = cut.end()
                self._exclude(edges[i], start, "too_little_text")
            if kind <= CODE and start < edges[i + 1]:
                if reply is None:
                    reply = Reply(self._anchor(pending) if pending else None)
                    replies.append(reply)
                    pending = []
                extend(reply.sections, start, edges[i + 1], kind == CODE, reach)
                reach = edges[i + 1]
            elif kind == QUOTE:
                reply = None
                pending.append(i)
            elif kind == HEADER:
                reply = None
                self._exclude(edges[i], edges[i + 1], "header")
            elif kind == SIGNATURE:
                self._exclude(edges[i], edges[i + 1], "signature")
            elif reach == edges[i]:
                reach = edges[i + 1]
        self._anchor(pending, unused=True)
        replies = self._join_greeting(replies)
        if CODE in self.kinds:
            replies = self._without_binaries(replies)
            if self.is_reply or (CODE in self.kinds[:2] and self.kinds[0] != AUTHOR):
                # An unquoted hunk that a comment follows is the anchor of that comment.
                replies = [pair for reply in replies for pair in self._split_reviews(reply)]
            for one in replies:
                one.sections = list(self._split_at_diffs(one.sections))
        return self._join_salutations(replies)

    def _join_salutations(self, replies: list[Reply]) -> list[Reply]:
        """Join a salutation by itself to the reply behind it: it answers no quote."""
        joined: list[Reply] = []
        for reply in reversed(replies):
            text = "".join(self.body[s.start : s.end] for s in reply.sections)
            if joined and len(text) <= GREETING_CHARS and SALUTATION.fullmatch(text):
                joined[-1].sections[:0] = reply.sections
                if reply.anchor:
                    self._exclude(*reply.anchor, "unused_quote")
            else:
                joined.append(reply)
        return joined[::-1]

    def _without_binaries(self, replies: list[Reply]) -> list[Reply]:
        """Exclude the encoded bytes of binary files, which are not text."""
        holes = binary_ranges(self.body)
        for reply in replies if holes else ():
            sections: list[Section] = []
            for section in reply.sections:
                at = section.start
                for start, end in holes:
                    if section.is_code and start < section.end and end > at:
                        if start > at:
                            sections.append(section._replace(start=at, end=start))
                        self._exclude(max(start, at), min(end, section.end), "binary")
                        at = min(end, section.end)
                if at < section.end:
                    sections.append(section._replace(start=at))
            reply.sections = sections
        return replies

    def _join_greeting(self, replies: list[Reply]) -> list[Reply]:
        """Join a short salutation above the first quote to the reply below that quote."""
        if (
            len(replies) < 2
            or replies[0].anchor
            or not replies[1].anchor
            or not replies[0].sections
        ):
            return replies
        first = replies[0]
        text = self.body[first.sections[0].start : first.sections[-1].end].strip()
        if len(text) <= GREETING_CHARS and "\n" not in text and not text.endswith((".", "?")):
            replies[1].sections[:0] = first.sections
            return replies[1:]
        return replies

    def _split_reviews(self, reply: Reply) -> Iterator[Reply]:
        current = Reply(reply.anchor)
        commented: list[bool] = []
        below_is_prose = False
        for start, end, is_code, _ in reversed(reply.sections):
            commented.append(is_code and below_is_prose)
            below_is_prose = below_is_prose if self.body[start:end].isspace() else not is_code
        for section, has_comment in zip(reply.sections, reversed(commented), strict=True):
            if (
                has_comment
                and section.end - section.start <= self.settings.anchor_chars_short
                and is_diff_text(self.body, section.start, section.end)
            ):
                if any(not self.body[p.start : p.end].isspace() for p in current.sections):
                    yield current
                elif current.anchor:
                    self._exclude(*current.anchor, "unused_quote")
                current = Reply((section.start, section.end), is_review=True)
            else:
                current.sections.append(section)
        yield current

    def _split_at_diffs(self, sections: list[Section]) -> Iterator[Section]:
        """Sections, code cut at its first diff: the diffstat above that belongs to the prose."""
        for section in sections:
            at = first_diff(self.body, section.start, section.end) if section.is_code else None
            if at is None:
                yield section
                continue
            if at > section.start:
                yield section._replace(end=at)
            yield Section(at, section.end, is_code=True, is_diff=True)

    def _anchor(self, pending: list[int], unused: bool = False) -> tuple[int, int] | None:
        """The range of the last depth-1 quote among the blocks `pending`; the others become
        exclusions.

        Blocks of one depth without anything between them are one quote whose lines a mail program
        folded.
        """
        quotes: list[tuple[int, int, int]] = []
        for i in pending:
            start = self.edges[i]
            if quotes and quotes[-1][::2] == (self.depths[i], start):
                start = quotes.pop()[1]
            quotes.append((self.depths[i], start, self.edges[i + 1]))
        anchor: tuple[int, int] | None = None
        for depth, start, end in reversed(quotes):
            if depth > 1:
                self._exclude(start, end, "deep_quote")
                continue
            if anchor is None and not unused:
                header = self._quoted_header(start, end) if end < self.edges[-1] else end
                if SUBSTANCE.search(MARKS.sub("", self.body[start:header])):
                    anchor = (start, header)
                    if header < end:
                        self._exclude(header, end, "header")
                    continue
            self._exclude(start, end, "unused_quote")
        return anchor

    def _quoted_header(self, start: int, end: int) -> int:
        """The start of the quoted reply header at the end of a quote; `end` if there is none."""
        text = self.body[start:end].rstrip("\n> \t")
        line = text.rfind("\n") + 1
        previous = text.rfind("\n", 0, max(line - 1, 0)) + 1
        for at in (previous, line):
            if QUOTED_HEADER.fullmatch(MARKS.sub("", text[at:]).strip()):
                return start + at
        return end

    def _emit_reply(self, reply: Reply, is_review: bool, limit: int) -> None:
        text = self._display([Span(s.start, s.end, "own") for s in reply.sections], "\n")
        anchor = self._cap_anchor(reply.anchor, len(text.strip()))
        if len(text.strip()) <= limit:
            kind = "authored_message"
            if anchor:
                kind = "review_pair" if is_review else "quote_reply_pair"
            self._draft(kind, reply.sections, text, anchor, reply)
            return
        starts = [s.start for s in reply.sections]
        for segment in self._segments(reply.sections, limit):
            sections = list(sections_between(reply.sections, starts, segment.start, segment.end))
            text = self._display([Span(segment.start, segment.end, "own")])
            if self._draft("long_authored_segment", sections, text, anchor, reply, segment):
                anchor = None
        if anchor:
            self._exclude(*anchor, "unused_quote")

    def _segments(self, sections: list[Section], limit: int) -> Iterator[TextSegment]:
        """Segments of a long reply: diffs by file and hunk, prose by paragraphs."""
        most = self.settings.recursive_chars
        recursive = sum(s.end - s.start for s in sections) > most
        limits = ProseLimits(limit, self.settings.overlap_chars, most, recursive)
        for start, end, is_diff in self._joined_sections(sections):
            if is_diff:
                caps = (
                    self.settings.message_chars,
                    attachments.PATCH_CHARS,
                    attachments.PATCH_HUNKS,
                )
                yield from diff_segments(self.body, start, end, *caps)
            else:
                yield from prose_segments(self.body, start, end, limits)

    def _joined_sections(self, sections: list[Section]) -> Iterator[tuple[int, int, bool]]:
        """Neighbouring sections joined, diffs apart from prose (code that is not a diff counts as
        prose).
        """
        current: tuple[int, int, bool] | None = None
        for start, end, _, is_diff in sections:
            if (
                current
                and current[1] == start
                and (is_diff == current[2] or self.body[start:end].isspace())
            ):
                current = (current[0], end, current[2])
            else:
                if current:
                    yield current
                current = (start, end, is_diff)
        if current:
            yield current

    def _cap_anchor(self, anchor: tuple[int, int] | None, own_chars: int) -> tuple[int, int] | None:
        """The last lines of the anchor that fit the cap; the rest becomes an exclusion."""
        if anchor is None:
            return None
        start, end = anchor
        short = own_chars < self.settings.short_reply_chars
        cap = self.settings.anchor_chars_short if short else self.settings.anchor_chars
        keep = start if end - start <= cap else self._fitting_start(start, end, cap)
        if keep > start:
            self._exclude(start, keep, "unused_quote")
        if keep < end and SUBSTANCE.search(self.body, keep, end):
            return keep, end
        self._exclude(keep, end, "unused_quote")
        return None

    def _fitting_start(self, start: int, end: int, cap: int) -> int:
        """The start of the last lines that have at most `cap` characters without their marks."""
        keep, size = end, 0
        while keep > start:
            line = max(self.body.rfind("\n", start, keep - 1) + 1, start)
            count = len(MARKS.sub("", self.body[line:keep]).rstrip("\n")) + (1 if size else 0)
            if size + count > cap:
                return keep if size else self._word_start(max(line, keep - cap), keep)
            size += count
            keep = line
        return keep

    def _word_start(self, start: int, end: int) -> int:
        """The first start of a sentence, else of a word, after `start`; `start` if there is none."""
        for boundary in (SENTENCE, SPACES):
            match = boundary.search(self.body, start, end)
            if match and match.end() < end:
                return match.end()
        return start

    def _draft(
        self,
        kind: str,
        sections: list[Section],
        text: str,
        anchor: tuple[int, int] | None,
        reply: Reply,
        segment: TextSegment | None = None,
    ) -> bool:
        """Add one chunk and return True; sections without substance become exclusions."""
        if not SUBSTANCE.search(text):
            self._exclude_sections(sections)
            if anchor and segment is None:
                self._exclude(*anchor, "unused_quote")
            return False
        is_plain = len(sections) == 1 and not sections[0].is_code
        own = [Span(section.start, section.end, "own") for section in sections]
        spans = own if is_plain else [Span(a, b, "own") for a, b in merged_ranges(own)]
        file, hunk = (segment.file, segment.hunk) if segment else ("", "")
        draft = Draft(kind, text, content_class="text" if is_plain else content_class(sections))
        if anchor:
            quoted = Span(*anchor, "anchor")
            spans = sorted([*spans, quoted])
            file, hunk = (file, hunk) if file else self.reviewed.of(*anchor)
            draft = draft._replace(point=self._display([quoted]), is_hunk=reply.is_review)
        if anchor or len(spans) > 1:
            draft = draft._replace(display=self._display(spans))
        if not is_plain and any(section.is_diff for section in sections):
            parts: tuple[list[Span], list[Span]] = [], []
            for section, span in zip(sections, own, strict=True):
                parts[section.is_diff].append(span)
            prose, diff = (self._display(part, "\n") for part in parts)
            draft = draft._replace(diff=diff, prose=prose)
        self.drafts.add(draft._replace(file=file, hunk=hunk), spans, self.offsets)
        return True
