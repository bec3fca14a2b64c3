"""Conversations to chunks, so that search finds them like mail: single turns and segments of windows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from transforms.chunks.table import ChunkTables, chunks_from_rows
from transforms.conversations.attachments import attachment_chunks, exclusion
from transforms.conversations.pseudonyms import is_pseudonym
from transforms.conversations.query_chunks import OVERLAP_TOKENS, TokenCounter, TokenSegment, token_segments
from transforms.conversations.windows import consolidate, without_headers
from transforms.hashing import parts_hash
from transforms.schemas.chunks import EXCLUSIONS
from transforms.settings.conversations import ConversationSettings
from transforms.text.spans import Offsets

VERSION = "4"
_NEIGHBOUR_TURNS = 2
"""Turns before and behind a turn that the lexical index reads with it: alone it has few words."""
_WORD = re.compile(r"[^\W_]")


def conversation_chunks(
    messages: pa.Table, attachments: pa.Table, settings: ConversationSettings, count: TokenCounter
) -> ChunkTables:
    """Chunks of the tables `conversations` and `conversation_attachments`, and what has no chunk.

    A chunk of the kind `turn` is one message: the vector is of its date, speaker and text, the
    lexical index reads `neighbour_turns` turns around it as well, and the turn of the window that it answers
    or whose thread it stands in. A chunk of the kind
    `window_segment` is a segment of the window, as its queries are. Pseudonyms are shown and not
    indexed. Spans are bytes of the window's Markdown, of a file those of its text.
    """
    rows: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for _, turns in groupby(messages.to_pylist(), key=lambda r: r["doc_id"]):
        spoken_turns = [t for t in turns if t["kind"] == "message"]
        window_text = consolidate(*([t[n] for t in spoken_turns] for n in ("author", "sent_at", "text")))
        offsets = Offsets(window_text.markdown)
        starts, ends = (offsets.bytes([r[side] for r in window_text.ranges]) for side in (0, 1))
        window_rows: list[dict[str, Any]] = []
        numbers = {turn["message_key"]: n for n, turn in enumerate(spoken_turns) if turn["message_key"]}
        for number, turn in enumerate(spoken_turns):
            span = (starts[number], ends[number])
            if not _WORD.search(turn["text"]):
                excluded.append(_exclusion(turn, span))
            elif settings.index in ("both", "turns"):
                window_rows.append(_turn(spoken_turns, number, numbers.get(turn["answers_key"]), span))
        if settings.index in ("both", "windows"):
            segments = token_segments(window_text.markdown, settings.query_tokens, OVERLAP_TOKENS, count)
            begins = [r[0] for r in window_text.ranges]
            for segment in segments:
                first = (
                    spoken_turns[max(0, bisect_left(begins, segment.start + 1) - 1)] if spoken_turns else None
                )
                if first and (row := _segment(first, window_text.markdown, segment, offsets)):
                    window_rows.append(row)
        for number, row in enumerate(window_rows):
            base = parts_hash(("conversation", row["doc_id"], row["chunk_kind"], row["text_display"]))
            counts[base] = counts.get(base, 0) + 1
            row["chunk_id"] = base if counts[base] == 1 else parts_hash((base, str(counts[base])))
            row |= {"chunk_index": number, "chunk_count": len(window_rows)}
        rows += window_rows
    if settings.index != "none":
        attached = list(_of_attachments(messages, attachments))
        rows += [row for own, _ in attached for row in own]
        excluded += [row for _, reasons in attached for row in reasons]
    return ChunkTables(chunks_from_rows(rows), EXCLUSIONS.from_rows(excluded))


def _of_attachments(
    messages: pa.Table, attachments: pa.Table
) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The rows of the chunks of each file, or of `exclusions` where it has none."""
    names = ("doc_id", "title")
    titles = dict(zip(*(messages.column(name).to_pylist() for name in names), strict=True))
    for attachment in attachments.to_pylist():
        rows = (
            list(attachment_chunks(attachment, titles[attachment["message_id"]]))
            if attachment["text"]
            else []
        )
        seen: dict[str, int] = {}
        for number, row in enumerate(rows):
            text = row["text_display"]
            seen[text] = seen.get(text, 0) + 1
            row |= {
                "chunk_id": parts_hash(("attachment", row["attachment_id"], text, str(seen[text]))),
                "chunk_index": number,
                "chunk_count": len(rows),
                "chunker": f"conversations-{VERSION}",
            }
        yield rows, [] if rows else [exclusion(attachment)]


def _common(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source_kind": "conversation",
        "source": turn["source"],
        "partition": turn["partition"],
        "doc_id": turn["doc_id"],
        "attachment_id": None,
        "parent_id": turn["doc_id"],
        "chunker": f"conversations-{VERSION}",
    }


def _turn(
    turns: Sequence[Mapping[str, Any]], number: int, answered: int | None, span: tuple[int, int]
) -> dict[str, Any]:
    turn = turns[number]
    near = range(max(0, number - _NEIGHBOUR_TURNS), min(len(turns), number + _NEIGHBOUR_TURNS + 1))
    context = [n for n in near if n != number]
    if answered is not None and answered not in near:
        context.insert(0, answered)
    when = f"{turn['sent_at']:%A %d %B %Y}"
    speaker = _speaker(turn)
    lex_texts = [
        f"{turn['sent_at']:%Y-%m-%d} {when} {speaker}",
        turn["text"],
        *(turns[n]["text"] for n in context),
    ]
    return {
        **_common(turn),
        "chunk_kind": "turn",
        "title": "",
        "heading_path": [turn["title"], f"{turn['sent_at']:%Y-%m-%d}", turn["author"]],
        "text_display": f"{turn['author']}, {turn['sent_at']:%Y-%m-%d %H:%M}\n{turn['text'].strip()}",
        "text_embed": f"{when}, {speaker}: {turn['text']}" if speaker else f"{when}: {turn['text']}",
        "text_lex": "\n".join(lex_texts),
        "spans": [{"byte_start": span[0], "byte_end": span[1], "role": "own"}],
    }


def _segment(
    first: Mapping[str, Any], markdown: str, segment: TokenSegment, offsets: Offsets
) -> dict[str, Any] | None:
    """The row of a segment of a window that begins at the turn `first`; None if it has no words."""
    text = markdown[segment.start : segment.end]
    speech = without_headers(text)
    if not _WORD.search(speech):
        return None
    overlap, start, end = offsets.bytes([segment.start, segment.own, segment.end])
    spans = [{"byte_start": overlap, "byte_end": start, "role": "overlap"}] if overlap < start else []
    span = f"{first['sent_at']:%d %B %Y}"
    return {
        **_common(first),
        "chunk_kind": "window_segment",
        "title": first["title"],
        "heading_path": [first["title"]],
        "text_display": text.strip(),
        "text_embed": f"{first['title']}, {span}\n\n{speech}",
        "text_lex": speech,
        "spans": [*spans, {"byte_start": start, "byte_end": end, "role": "own"}],
    }


def _speaker(turn: Mapping[str, Any]) -> str:
    return "" if is_pseudonym(turn["author"] or "") else str(turn["author"] or "")


def _exclusion(turn: Mapping[str, Any], span: tuple[int, int]) -> dict[str, Any]:
    return {
        "doc_id": turn["doc_id"],
        "attachment_id": None,
        "source": turn["source"],
        "partition": turn["partition"],
        "byte_start": span[0],
        "byte_end": span[1],
        "reason": "too_little_text",
    }
