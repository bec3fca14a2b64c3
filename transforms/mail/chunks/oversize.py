"""Lanes: mail that is chunked at once (fast), and large texts that wait in a queue (slow)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from transforms.chunks.table import ChunkTables
from transforms.hashing import parts_hash
from transforms.mail.chunks.table import message_chunks
from transforms.schemas.chunks import SLOW_QUEUE
from transforms.settings.mail import ChunkSettings

VERSION = "1"
_WAITS = "slow_lane"
"""Exclusion reason of text whose slow chunks do not exist yet."""


class FastTables(NamedTuple):
    """Chunks and exclusions of the fast part of a partition, and the queue of its slow part."""

    chunks: pa.Table
    exclusions: pa.Table
    queue: pa.Table


def fast_chunks(
    messages: pa.Table, blocks: pa.Table, attachments: pa.Table, settings: ChunkSettings
) -> FastTables:
    """The fast rows of `message_chunks`, and the slow ones as a table of `schemas.SLOW_QUEUE`.

    Bodies above `slow_body_chars` characters are slow, and attachments with the lane `slow`, and the segments of
    patches that change more than `PATCH_FILES` files.
    """
    long = pc.greater(pc.utf8_length(messages.column("body")), settings.slow_body_chars)
    slow = pc.equal(attachments.column("lane"), "slow")
    quick = attachments.filter(pc.invert(slow))
    tables = message_chunks(messages, blocks, quick, settings, bodies=messages.filter(pc.invert(long)))
    split = pc.unique(_of_lane(tables.chunks, "slow").column("attachment_id"))
    parts = pc.is_in(attachments.column("attachment_id"), split)
    queue = _queue(messages.filter(long), attachments.filter(pc.or_(slow, parts)), messages, blocks)
    if not len(split):
        return FastTables(*tables, queue)
    is_split = pc.is_in(tables.exclusions.column("attachment_id"), split)
    return FastTables(_of_lane(tables.chunks, "fast"), tables.exclusions.filter(pc.invert(is_split)), queue)


def slow_chunks(
    queue: pa.Table, messages: pa.Table, blocks: pa.Table, attachments: pa.Table, settings: ChunkSettings
) -> ChunkTables:
    """The rows of `message_chunks` for the documents in `queue`, without those of the fast part."""
    ids = queue.column("attachment_id")
    bodies = pc.is_in(messages.column("message_id"), queue.filter(pc.is_null(ids)).column("doc_id"))
    parts = pc.is_in(attachments.column("attachment_id"), pc.drop_null(ids))
    tables = message_chunks(
        messages, blocks, attachments.filter(parts), settings, bodies=messages.filter(bodies)
    )
    return ChunkTables(_of_lane(tables.chunks, "slow"), tables.exclusions)


def _of_lane(chunks: pa.Table, lane: str) -> pa.Table:
    return chunks.filter(pc.equal(chunks.column("lane"), lane))


def _queue(bodies: pa.Table, attachments: pa.Table, messages: pa.Table, blocks: pa.Table) -> pa.Table:
    """The table `slow_queue` of slow bodies and slow attachments, in the order of its key."""
    if not len(bodies) and not len(attachments):
        return SLOW_QUEUE.empty()
    owners = pc.is_in(messages.column("message_id"), attachments.column("message_id"))
    mails = {row["message_id"]: row for row in messages.select(_OF_MAIL).filter(owners).to_pylist()}
    rows = [*_of_bodies(bodies, blocks), *_of_attachments(attachments, mails)]
    rows.sort(key=lambda row: (row["doc_id"], row["attachment_id"] or ""))
    return SLOW_QUEUE.conform(pa.Table.from_pylist(rows, SLOW_QUEUE.arrow))


_OF_MAIL = ["message_id", "content_hash", "subject", "in_reply_to", "refs"]
_OF_BLOCK = ["block_index", "kind", "quote_depth", "char_length"]


def _of_bodies(bodies: pa.Table, blocks: pa.Table) -> Iterator[dict[str, Any]]:
    for mail in bodies.select([*_OF_MAIL, "source", "partition", "body", "body_format"]).to_pylist():
        own = blocks.filter(pc.equal(blocks.column("message_id"), mail["message_id"]))
        runs = own.select(_OF_BLOCK).sort_by("block_index").to_pylist()
        inputs = [_as_json(mail, _OF_MAIL), mail["body_format"], json.dumps(runs), mail["body"]]
        yield {
            "doc_id": mail["message_id"],
            "attachment_id": None,
            "source": mail["source"],
            "partition": mail["partition"],
            "byte_start": 0,
            "byte_end": len(mail["body"].encode()),
            "reason": _WAITS,
            "kind": "body",
            "checksum": parts_hash(inputs),
        }


def _of_attachments(attachments: pa.Table, mails: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for part in attachments.to_pylist():
        text = part.pop("text")
        mail = mails.get(part["message_id"], {})
        yield {
            "doc_id": part["message_id"],
            "attachment_id": part["attachment_id"],
            "source": part["source"],
            "partition": part["partition"],
            "byte_start": 0,
            "byte_end": len(text.encode()),
            "reason": _WAITS,
            "kind": part["content_class"] if part["content_class"] in ("log", "patch") else "attachment",
            "checksum": parts_hash([_as_json(mail, _OF_MAIL), _as_json(part, sorted(part)), text]),
        }


def _as_json(row: Mapping[str, Any], columns: list[str]) -> str:
    return json.dumps([row.get(name) for name in columns])
