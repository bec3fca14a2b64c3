"""Attachments to drafts: patches by file and hunk, code by definition, logs and prose by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from transforms.mail.chunks import sizes
from transforms.mail.chunks.drafts import Draft, Drafts
from transforms.text.diffs import binary_ranges, diff_pieces, file_starts, first_diff, header_lines
from transforms.text.pieces import Piece, code_pieces, section_pieces, sql_pieces
from transforms.text.spans import SUBSTANCE, ByteOffsets, Span, shown

BINARY_CLASSES = frozenset({"archive", "other"})
KIND = "attachment_segment"


def emit_attachment(part: Mapping[str, Any], drafts: Drafts, pack_chars: int) -> None:
    """The drafts of the attachment that is open in `drafts`, or the reason why there are none.

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
    split = sql_pieces if is_sql else code_pieces if is_code else section_pieces
    for piece in split(text, sizes.ATTACHMENT_CHARS):
        own = shown(text, [Span(piece.start, piece.end, "own")])
        if SUBSTANCE.search(own):
            spans = [Span(piece.start, piece.end, "own")]
            drafts.add(Draft(KIND, own, content_class=content_class), spans, offsets)
        elif own.strip():
            drafts.exclude(offsets(piece.start), offsets(piece.end), "too_little_text")


def _emit_patch(text: str, drafts: Drafts, offsets: ByteOffsets, pack_chars: int) -> None:
    """A patch by file and hunk, of many files in the slow lane; one of many also as a record of the files."""
    starts = file_starts(text, 0, len(text))
    is_slow = len(starts) > sizes.PATCH_FILES
    if is_slow:
        lines = [Span(a, b, "own") for a, b in header_lines(text, starts)]
        record = shown(text, lines, "\n")
        drafts.add(Draft(KIND, record, diff=record, content_class="patch"), lines, offsets)
    for piece, spans, left in _without_binaries(text, _patch_pieces(text, pack_chars)):
        own = shown(text, spans, "\n") if spans else ""
        for start, end in left:
            drafts.exclude(offsets(start), offsets(end), "binary")
        if not SUBSTANCE.search(own):
            if own.strip():
                drafts.exclude(offsets(spans[0].start), offsets(spans[-1].end), "too_little_text")
            continue
        diff = own if piece.file or first_diff(own, 0, len(own)) is not None else ""
        drafts.add(
            Draft(
                KIND,
                own,
                None,
                file=piece.file,
                hunk=piece.hunk,
                diff=diff,
                content_class="patch",
                is_slow=is_slow,
            ),
            spans,
            offsets,
        )


def _patch_pieces(text: str, pack_chars: int) -> Iterator[Piece]:
    """What stands above the first diff by section, then the diff by file and hunk.

    A text in which no file's diff can be made out is one record per `ATTACHMENT_CHARS`.
    """
    at = first_diff(text, 0, len(text))
    if at is None:
        yield from section_pieces(text, sizes.ATTACHMENT_CHARS)
        return
    yield from section_pieces(text[:at], sizes.ATTACHMENT_CHARS)
    yield from diff_pieces(text, at, len(text), pack_chars, sizes.PATCH_CHARS, sizes.PATCH_HUNKS)


def _without_binaries(
    text: str, pieces: Iterator[Piece]
) -> Iterator[tuple[Piece, list[Span], list[tuple[int, int]]]]:
    """Each piece with its ranges of text, and its ranges of encoded binary files."""
    holes = binary_ranges(text)
    nth = 0
    for piece in pieces:
        spans, left, at = [], [], piece.start
        while nth < len(holes) and holes[nth][1] <= piece.start:
            nth += 1
        for start, end in holes[nth:]:
            if start >= piece.end:
                break
            start, end = max(start, at), min(end, piece.end)
            if start > at:
                spans.append(Span(at, start, "own"))
            left.append((start, end))
            at = end
        if at < piece.end:
            spans.append(Span(at, piece.end, "own"))
        yield piece, spans, left
