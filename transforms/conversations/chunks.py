"""Conversations to chunks, so that search finds them like mail: turns, segments of windows, and
files that they name.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.chunks.table import ChunkTables, chunks_from_rows
from transforms.conversations.exports import Chat, NamedFile
from transforms.conversations.pseudonyms import is_pseudonym
from transforms.conversations.query_chunks import TokenSegment, token_segments
from transforms.conversations.windows import Window, consolidate, window_id, without_headers
from transforms.hashing import parts_hash
from transforms.schemas.chunks import EXCLUSIONS, PICTURE
from transforms.schemas.mail import ATTACHMENTS
from transforms.schemas.table import rows_of
from transforms.settings.conversations import ConversationSettings
from transforms.text.passages import CountTokens
from transforms.text.segments import TextSegment, section_segments
from transforms.text.spans import SUBSTANCE, Offsets
from transforms.text.visible import picture_words

_SEGMENT_CHARS = 8000
"""A longer text is split, as that of an attachment of mail is."""
_UNKNOWN_TYPE = "application/octet-stream"


class FileText(NamedTuple):
    """The text of a file or the reason for none, where its pages begin in the text, its bytes, and
    the picture itself.
    """

    text: str | None
    reason: str | None
    page_starts: list[int] | None = None
    byte_count: int = 0
    picture: str | None = None


def conversation_attachments(
    chat: Chat,
    window: Window,
    source: str,
    partition: str,
    text_of: Callable[[NamedFile], FileText],
) -> pa.Table:
    """The table `conversation_attachments`: the files that messages of a window name, in order.

    A file that the export does not hold has the reason `missing`. Names of people are masked as in
    messages, and a picture with a vector has no name of its own then.
    """
    owner = window_id(f"{source}:{chat.name}", window.key)
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for entry in window.entries:
        for file in entry.files:
            file_text = text_of(file)
            text, page_starts = masked_pages(file_text.text, file_text.page_starts, chat.mask)
            (name,) = chat.mask([file.name])
            if file_text.picture and chat.mask is not list:  # a part of a name is not masked
                name = f"picture.{name.rpartition('.')[2]}"
            base = parts_hash(("chat file", owner, entry.at.isoformat(), name, file.digest))
            counts[base] = counts.get(base, 0) + 1
            rows.append(
                {
                    "attachment_id": base
                    if counts[base] == 1
                    else parts_hash((base, str(counts[base]))),
                    "message_id": owner,
                    "source": source,
                    "partition": partition,
                    "part_index": len(rows),
                    "filename": name,
                    "declared_type": file.declared_type or _UNKNOWN_TYPE,
                    "content_class": "other" if text is None or file_text.picture else "text",
                    "text": text,
                    "page_starts": page_starts,
                    "char_count": len(text or ""),
                    "byte_count": file_text.byte_count,
                    "reason": file_text.reason,
                    "lane": "fast",
                    "picture": file_text.picture,
                }
            )
    return ATTACHMENTS.from_rows(rows)


def masked_pages(
    text: str | None, page_starts: Sequence[int] | None, mask: Callable[[list[str]], list[str]]
) -> tuple[str | None, Sequence[int] | None]:
    """The text of a file without the names of a chat's people, and where its pages begin then."""
    if text is None or not page_starts:
        return text and mask([text])[0], page_starts
    stored = text.encode()
    cuts = [0, *page_starts[1:], len(stored)]
    pages = mask([stored[a:b].decode() for a, b in pairwise(cuts)])
    starts, at = [], 0
    for page in pages:
        starts.append(at)
        at += len(page.encode())
    return "".join(pages), starts


_NEIGHBOUR_TURNS = 2
"""Turns before and behind a turn that the lexical index reads with it: alone it has few words."""
_WORD = re.compile(r"[^\W_]")


def conversation_chunks(
    messages: pa.Table, attachments: pa.Table, settings: ConversationSettings, count: CountTokens
) -> ChunkTables:
    """Chunks of the tables `conversations` and `conversation_attachments`, and the texts without a
    chunk.

    A chunk of the kind `turn` is one message: the vector is of its date, speaker and text, the
    lexical index reads `neighbour_turns` turns around it as well, and the turn of the window that
    it answers or whose thread it is in. A chunk of the kind `window_segment` is a segment of the
    window, as its queries are. Pseudonyms are shown and not indexed. Spans are bytes of the
    window's Markdown, of a file those of its text.
    """
    rows: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for _, turns in groupby(messages.to_pylist(), key=lambda r: r["doc_id"]):
        spoken_turns = [t for t in turns if t["kind"] == "message"]
        window_rows, without_words = _of_window(spoken_turns, settings, count)
        for number, row in enumerate(window_rows):
            base = parts_hash(
                ("conversation", row["doc_id"], row["chunk_kind"], row["text_display"])
            )
            counts[base] = counts.get(base, 0) + 1
            row["chunk_id"] = base if counts[base] == 1 else parts_hash((base, str(counts[base])))
            row |= {"chunk_index": number, "chunk_count": len(window_rows)}
        rows += window_rows
        excluded += without_words
    if settings.index != "none":
        titles = dict(rows_of(messages, "doc_id", "title"))
        for attachment in attachments.to_pylist():
            own = _of_attachment(attachment, titles[attachment["message_id"]])
            rows += own
            excluded += [] if own else [_without_chunk(attachment)]
    return ChunkTables(chunks_from_rows(rows), EXCLUSIONS.from_rows(excluded))


def _of_window(
    turns: Sequence[Mapping[str, Any]], settings: ConversationSettings, count: CountTokens
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the chunks of a window, without their numbers, and those of `exclusions` of its
    turns without a word.
    """
    window_text = consolidate(*([t[n] for t in turns] for n in ("author", "sent_at", "text")))
    offsets = Offsets(window_text.markdown)
    starts, ends = (offsets.bytes([r[side] for r in window_text.ranges]) for side in (0, 1))
    rows: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    numbers = {turn["message_key"]: n for n, turn in enumerate(turns) if turn["message_key"]}
    for number, (turn, *span) in enumerate(zip(turns, starts, ends, strict=True)):
        if not _WORD.search(turn["text"]):
            places = {name: turn[name] for name in ("doc_id", "source", "partition")}
            row = {"attachment_id": None, "byte_start": span[0], "byte_end": span[1]}
            excluded.append(places | row | {"reason": "too_little_text"})
        elif settings.index in ("both", "turns"):
            rows.append(_turn(turns, number, numbers.get(turn["answers_key"]), span))
    if turns and settings.index in ("both", "windows"):
        begins = [r[0] for r in window_text.ranges]
        for segment in token_segments(
            window_text.markdown, settings.query_tokens, settings.query_overlap_tokens, count
        ):
            first = turns[max(0, bisect_left(begins, segment.start + 1) - 1)]
            rows += _segments(first, window_text.markdown, segment, offsets)
    return rows, excluded


def _of_attachment(attachment: Mapping[str, Any], chat_title: str) -> list[dict[str, Any]]:
    """The rows of the chunks of one row of `conversation_attachments`."""
    text, picture = attachment["text"] or "", attachment["picture"]
    offsets, title = Offsets(text), f"{chat_title} · {attachment['filename']}"
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for segment in (
        [TextSegment(0, len(text))] if picture else section_segments(text, _SEGMENT_CHARS)
    ):
        part = text[segment.start : segment.end].strip("\n")
        if SUBSTANCE.search(part):
            counts[part] = counts.get(part, 0) + 1
            key = ("attachment", attachment["attachment_id"], part, str(counts[part]))
            rows.append(
                {
                    "source_kind": "attachment",
                    "source": attachment["source"],
                    "partition": attachment["partition"],
                    "doc_id": attachment["message_id"],
                    "attachment_id": attachment["attachment_id"],
                    "parent_id": attachment["message_id"],
                    "chunk_kind": PICTURE if picture else "attachment_segment",
                    "title": title,
                    "heading_path": [],
                    "text_display": part,
                    "text_embed": picture or f"{title}\n\n{part}",
                    "text_lex": picture_words(part) if picture else part,
                    "spans": [
                        {
                            "byte_start": offsets(segment.start),
                            "byte_end": offsets(segment.end),
                            "role": "own",
                        }
                    ],
                    "chunk_id": parts_hash(key),
                    "chunk_index": len(rows),
                    "chunker": "conversations",
                }
            )
    return [{**row, "chunk_count": len(rows)} for row in rows]


def _without_chunk(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `exclusions` that says why a file has no chunk."""
    reason, size, text = "binary", attachment["byte_count"], attachment["text"]
    if text is not None:
        reason, size = "too_little_text", len(text.encode())
    place = {name: attachment[name] for name in ("attachment_id", "source", "partition")}
    return place | {
        "doc_id": attachment["message_id"],
        "byte_start": 0,
        "byte_end": size,
        "reason": reason,
    }


def _common(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source_kind": "conversation",
        "source": turn["source"],
        "partition": turn["partition"],
        "doc_id": turn["doc_id"],
        "attachment_id": None,
        "parent_id": turn["doc_id"],
        "chunker": "conversations",
    }


def _turn(
    turns: Sequence[Mapping[str, Any]], number: int, answered: int | None, span: Sequence[int]
) -> dict[str, Any]:
    turn = turns[number]
    near = range(max(0, number - _NEIGHBOUR_TURNS), min(len(turns), number + _NEIGHBOUR_TURNS + 1))
    context = [n for n in near if n != number]
    if answered is not None and answered not in near:
        context.insert(0, answered)
    when = f"{turn['sent_at']:%A %d %B %Y}"
    speaker = "" if is_pseudonym(turn["author"] or "") else str(turn["author"] or "")
    day = f"{turn['sent_at']:%Y-%m-%d}"
    lex_texts = [f"{day} {when} {speaker}", turn["text"], *(turns[n]["text"] for n in context)]
    return {
        **_common(turn),
        "chunk_kind": "turn",
        "title": "",
        "heading_path": [turn["title"], day, turn["author"]],
        "text_display": f"{turn['author']}, {turn['sent_at']:%Y-%m-%d %H:%M}\n{turn['text'].strip()}",
        "text_embed": f"{when}, {speaker}: {turn['text']}"
        if speaker
        else f"{when}: {turn['text']}",
        "text_lex": "\n".join(lex_texts),
        "spans": [{"byte_start": span[0], "byte_end": span[1], "role": "own"}],
    }


def _segments(
    first: Mapping[str, Any], markdown: str, segment: TokenSegment, offsets: Offsets
) -> list[dict[str, Any]]:
    """The row of a segment of a window that begins at the turn `first`; none if it has no words."""
    text = markdown[segment.start : segment.end]
    speech = without_headers(text)
    if not _WORD.search(speech):
        return []
    overlap, start, end = offsets.bytes([segment.start, segment.own, segment.end])
    spans = (
        [{"byte_start": overlap, "byte_end": start, "role": "overlap"}] if overlap < start else []
    )
    span = f"{first['sent_at']:%d %B %Y}"
    row = {
        **_common(first),
        "chunk_kind": "window_segment",
        "title": first["title"],
        "heading_path": [first["title"]],
        "text_display": text.strip(),
        "text_embed": f"{first['title']}, {span}\n\n{speech}",
        "text_lex": speech,
        "spans": [*spans, {"byte_start": start, "byte_end": end, "role": "own"}],
    }
    return [row]
