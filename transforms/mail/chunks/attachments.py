"""Attachments to drafts: patches by file and hunk, code by definition, logs and prose by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from transforms.mail.chunks import sizes
from transforms.mail.chunks.drafts import Draft, Drafts
from transforms.text.diffs import binary_ranges, diff_segments, file_starts, first_diff, header_lines
from transforms.text.segments import Segment, code_segments, section_segments, sql_segments
from transforms.text.spans import SUBSTANCE, ByteOffsets, Span, display_text

BINARY_CLASSES = frozenset({"archive", "other"})
KIND = "attachment_segment"


def emit_attachment(part: Mapping[str, Any], drafts: Drafts, pack_chars: int) -> None:
    """Add the drafts of the attachment that is open in `drafts`, or the reason why it has none.

    Hunks of patches are packed up to `pack_chars` characters.
    `part` has the columns text, content_class, filename, declared_type and byte_count of the table `attachments`.
    """
    text, content_class = part["text"], part["content_class"]
    if text is None:
        drafts.exclude(0, part["byte_count"], "binary" if content_class in BINARY_CLASSES else "no_text")
        return
    offsets = ByteOffsets(text)
    if not text.strip():
        drafts.exclude(0, offsets(len(text)), "empty")
        return
    if content_class == "patch":
        _emit_patch(text, drafts, offsets, pack_chars)
        return
    is_sql = (part["filename"] or "").lower().endswith(".sql") or part["declared_type"] == "application/sql"
    is_code = content_class == "code"
    split = sql_segments if is_sql else code_segments if is_code else section_segments
    for segment in split(text, sizes.ATTACHMENT_CHARS):
        spans = [Span(segment.start, segment.end, "own")]
        _add(Draft(KIND, display_text(text, spans), content_class=content_class), spans, drafts, offsets)


def _add(draft: Draft, spans: list[Span], drafts: Drafts, offsets: ByteOffsets) -> None:
    """Add a draft, or exclude its spans if its text has no substance."""
    if SUBSTANCE.search(draft.own):
        drafts.add(draft, spans, offsets)
    elif draft.own.strip():
        drafts.exclude(offsets(spans[0].start), offsets(spans[-1].end), "too_little_text")


def _emit_patch(text: str, drafts: Drafts, offsets: ByteOffsets, pack_chars: int) -> None:
    """Add a patch by file and hunk; a patch of many files is slow and gets a record of the files, too."""
    starts = file_starts(text, 0, len(text))
    is_slow = len(starts) > sizes.PATCH_FILES
    if is_slow:
        lines = [Span(a, b, "own") for a, b in header_lines(text, starts)]
        record = display_text(text, lines, "\n")
        drafts.add(Draft(KIND, record, diff=record, content_class="patch"), lines, offsets)
    for segment, spans, binaries in _without_binaries(text, _patch_segments(text, pack_chars)):
        own = display_text(text, spans, "\n") if spans else ""
        for start, end in binaries:
            drafts.exclude(offsets(start), offsets(end), "binary")
        diff = own if segment.file or first_diff(own, 0, len(own)) is not None else ""
        draft = Draft(
            KIND, own, file=segment.file, hunk=segment.hunk, diff=diff, content_class="patch", is_slow=is_slow
        )
        _add(draft, spans, drafts, offsets)


def _patch_segments(text: str, pack_chars: int) -> Iterator[Segment]:
    """The text above the first diff by section, then the diff by file and hunk.

    A text without a recognisable diff is cut into sections of `ATTACHMENT_CHARS` characters.
    """
    at = first_diff(text, 0, len(text))
    if at is None:
        yield from section_segments(text, sizes.ATTACHMENT_CHARS)
        return
    yield from section_segments(text[:at], sizes.ATTACHMENT_CHARS)
    yield from diff_segments(text, at, len(text), pack_chars, sizes.PATCH_CHARS, sizes.PATCH_HUNKS)


def _without_binaries(
    text: str, segments: Iterator[Segment]
) -> Iterator[tuple[Segment, list[Span], list[tuple[int, int]]]]:
    """Each segment with its ranges of text, and its ranges of encoded binary files."""
    holes = binary_ranges(text)
    first = 0
    for segment in segments:
        spans, binaries, at = [], [], segment.start
        while first < len(holes) and holes[first][1] <= segment.start:
            first += 1
        for start, end in holes[first:]:
            if start >= segment.end:
                break
            start, end = max(start, at), min(end, segment.end)
            if start > at:
                spans.append(Span(at, start, "own"))
            binaries.append((start, end))
            at = end
        if at < segment.end:
            spans.append(Span(at, segment.end, "own"))
        yield segment, spans, binaries
