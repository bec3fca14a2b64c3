"""Files that messages of chats name: their rows with the text of documents or the reason for none, and their chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.conversations.exports import Chat, NamedFile
from transforms.conversations.windows import Window, window_id
from transforms.hashing import parts_hash
from transforms.schemas.mail import ATTACHMENTS
from transforms.text.segments import section_segments
from transforms.text.spans import SUBSTANCE, ByteOffsets

_SEGMENT_CHARS = 8000
"""A longer text is split, as that of an attachment of mail is."""
_UNKNOWN_TYPE = "application/octet-stream"


class FileText(NamedTuple):
    """The text of a file or the reason for none, the first byte of each of its pages in the text, and its bytes."""

    text: str | None
    reason: str | None
    page_starts: list[int] | None = None
    byte_count: int = 0


def conversation_attachments(
    chat: Chat, window: Window, source: str, partition: str, text_of: Callable[[NamedFile], FileText]
) -> pa.Table:
    """The table `conversation_attachments`: the files that messages of a window name, in order.

    What the export does not hold has the reason `missing`. Names of people are masked as in messages.
    """
    owner = window_id(f"{source}:{chat.name}", window.key)
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for entry in window.entries:
        for file in entry.files:
            found = text_of(file)
            text, page_starts = _masked(found, chat)
            (name,) = chat.mask([file.name])
            base = parts_hash(("chat file", owner, entry.at.isoformat(), name, file.digest))
            seen[base] = seen.get(base, 0) + 1
            rows.append(
                {
                    "attachment_id": base if seen[base] == 1 else parts_hash((base, str(seen[base]))),
                    "message_id": owner,
                    "source": source,
                    "partition": partition,
                    "part_index": len(rows),
                    "filename": name,
                    "declared_type": file.declared_type or _UNKNOWN_TYPE,
                    "content_class": "other" if text is None else "text",
                    "text": text,
                    "page_starts": page_starts,
                    "char_count": len(text or ""),
                    "byte_count": found.byte_count,
                    "reason": found.reason,
                    "lane": "fast",
                }
            )
    return ATTACHMENTS.from_rows(rows)


def _masked(file: FileText, chat: Chat) -> tuple[str | None, list[int] | None]:
    """The text of a file without the names of a chat's people, and where its pages begin now."""
    if file.text is None or not file.page_starts:
        return file.text and chat.mask([file.text])[0], file.page_starts
    stored = file.text.encode()
    cuts = [0, *file.page_starts[1:], len(stored)]
    pages = chat.mask([stored[a:b].decode() for a, b in pairwise(cuts)])
    starts, at = [], 0
    for page in pages:
        starts.append(at)
        at += len(page.encode())
    return "".join(pages), starts


def attachment_chunks(attachment: Mapping[str, Any], chat_title: str) -> Iterator[dict[str, Any]]:
    """The rows of the chunks of one row of `conversation_attachments`, without ids and positions."""
    text, offsets = attachment["text"], ByteOffsets(attachment["text"])
    title = f"{chat_title} · {attachment['filename']}"
    for segment in section_segments(text, _SEGMENT_CHARS):
        shown = text[segment.start : segment.end].strip("\n")
        if SUBSTANCE.search(shown):
            yield {
                "source_kind": "attachment",
                "source": attachment["source"],
                "partition": attachment["partition"],
                "doc_id": attachment["message_id"],
                "attachment_id": attachment["attachment_id"],
                "parent_id": attachment["message_id"],
                "chunk_kind": "attachment_segment",
                "title": title,
                "heading_path": [],
                "text_display": shown,
                "text_embed": f"{title}\n\n{shown}",
                "text_lex": shown,
                "spans": [
                    {"byte_start": offsets(segment.start), "byte_end": offsets(segment.end), "role": "own"}
                ],
            }


def exclusion(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """Why a file has no chunk, as a row of `exclusions`."""
    reason = "too_little_text" if attachment["text"] is not None else "binary"
    size = attachment["byte_count"] if attachment["text"] is None else len(attachment["text"].encode())
    names = ("attachment_id", "source", "partition")
    return {
        **{name: attachment[name] for name in names},
        "doc_id": attachment["message_id"],
        "byte_start": 0,
        "byte_end": size,
        "reason": reason,
    }
