"""Markdown to segments within a limit of tokens: the queries of windows, and the table that stores
them.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from transforms.conversations.windows import without_headers
from transforms.hashing import parts_hash
from transforms.schemas.conversations import CONVERSATION_QUERY_CHUNKS
from transforms.settings.conversations import ConversationSettings
from transforms.text.passages import CountTokens
from transforms.text.segments import splits
from transforms.text.spans import Offsets

_PARAGRAPH = re.compile(r"\n{2,}")
_JOIN_TOKENS = 2
_SHRINK = 0.95


class TokenSegment(NamedTuple):
    """Characters `start` to `end` of a text; those before `own` repeat the end of the previous
    segment.
    """

    start: int
    own: int
    end: int
    tokens: int


class _Paragraph(NamedTuple):
    start: int
    end: int
    tokens: int


def token_segments(
    text: str, max_tokens: int, overlap_tokens: int, count: CountTokens
) -> list[TokenSegment]:
    """Segments of `text` that end with a paragraph, each of at most `max_tokens` tokens.

    The egregora design: a segment gathers paragraphs while they fit and begins with the last whole
    paragraphs of the one before that have at most `overlap_tokens` tokens together. A paragraph
    that is too large is split at lines, sentences and words. Tokens are counted over the final
    segments, since the counts of paragraphs do not add up exactly.
    """
    limit = max_tokens
    while True:
        paragraphs = _paragraphs(text, limit, count)
        segments = _gather(paragraphs, limit, min(overlap_tokens, limit // 2))
        counts = count([text[p.start : p.end] for p in segments])
        if max(counts, default=0) <= max_tokens:
            return [p._replace(tokens=n) for p, n in zip(segments, counts, strict=True)]
        limit = max(1, int(limit * _SHRINK))


def _paragraphs(text: str, limit: int, count: CountTokens) -> list[_Paragraph]:
    """The paragraphs, and the parts of those that are too large."""
    edges = [0, *(e for m in _PARAGRAPH.finditer(text) for e in (m.start(), m.end())), len(text)]
    waiting = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if text[a:b].strip()]
    done: list[_Paragraph] = []
    while waiting:
        counts = count([text[a:b] for a, b in waiting])
        done += [
            _Paragraph(a, b, n)
            for (a, b), n in zip(waiting, counts, strict=True)
            if n <= limit or b - a == 1
        ]
        large = [
            (a, b, n) for (a, b), n in zip(waiting, counts, strict=True) if n > limit and b - a > 1
        ]
        waiting = []
        for a, b, n in large:
            target = max(1, min((b - a) // 2, int((b - a) * limit / n * 0.9)))
            parts = pairwise([a, *splits(text, a, b, target), b])
            waiting += [(start, end) for start, end in parts if text[start:end].strip()]
    return sorted(done)


def _gather(paragraphs: Sequence[_Paragraph], limit: int, overlap: int) -> list[TokenSegment]:
    segments: list[TokenSegment] = []
    first = own = total = 0
    for number, paragraph in enumerate(paragraphs):
        if number > own and total + paragraph.tokens + _JOIN_TOKENS > limit:
            segments.append(
                TokenSegment(
                    paragraphs[first].start,
                    paragraphs[own].start,
                    paragraphs[number - 1].end,
                    total,
                )
            )
            own, first, total = number, number, 0
            while first > 0:
                more = total + paragraphs[first - 1].tokens + _JOIN_TOKENS
                if more > overlap or more + paragraph.tokens > limit:
                    break
                first, total = first - 1, more
        total += paragraph.tokens + _JOIN_TOKENS
    if paragraphs:
        segments.append(
            TokenSegment(paragraphs[first].start, paragraphs[own].start, paragraphs[-1].end, total)
        )
    return segments


def conversation_query_chunks(
    windows: pa.Table, settings: ConversationSettings, count: CountTokens
) -> pa.Table:
    """The table `conversation_query_chunks` of the windows of `conversation_markdown`."""
    rows = []
    counts: dict[str, int] = {}
    for window in windows.to_pylist():
        text = window["markdown"]
        segments = token_segments(text, settings.query_tokens, settings.query_overlap_tokens, count)
        offsets = Offsets(text)
        for number, segment in enumerate(segments):
            segment_text = text[segment.start : segment.end]
            base = parts_hash((window["doc_id"], segment_text))
            counts[base] = counts.get(base, 0) + 1
            overlap, start, end = offsets.bytes([segment.start, segment.own, segment.end])
            rows.append(
                {
                    "query_id": base
                    if counts[base] == 1
                    else parts_hash((base, str(counts[base]))),
                    **{n: window[n] for n in ("doc_id", "source", "partition")},
                    "chunk_index": number,
                    "chunk_count": len(segments),
                    "token_count": segment.tokens,
                    "overlap_start": overlap,
                    "byte_start": start,
                    "byte_end": end,
                    "text": segment_text,
                    "text_query": without_headers(segment_text) or segment_text,
                }
            )
    return CONVERSATION_QUERY_CHUNKS.from_rows(rows)
