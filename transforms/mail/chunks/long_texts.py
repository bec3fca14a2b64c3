"""Very long texts of mail, which become thousands of chunks: those that wait until everything else
is published.
"""

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.chunks.attachments import has_many_files
from transforms.mail.chunks.table import message_chunks
from transforms.schemas.chunks import EXCLUSIONS
from transforms.settings.mail import ChunkSettings

SLOW_LANE = "slow_lane"
"""Exclusion reason of text that waits to be made into chunks."""
TextId = tuple[str, str | None]
"""The mail, and the attachment unless it is the body."""


class AtOnce(NamedTuple):
    """Bytes of very long texts that a partition does not leave out: so many, or that share of all
    of its text.
    """

    little: int
    share: float


AT_ONCE, AT_ONCE_BY_TABLE = AtOnce(4 << 20, 0.5), AtOnce(64 << 20, 0.5)
"""In general, and with a model that is a table, which takes less time for them than a second
publish does.
"""
EVERYTHING = AtOnce(0, 1)


class Chunked(NamedTuple):
    """Chunks and exclusions of a partition, and the bytes of the very long texts that were left
    out.
    """

    chunks: pa.Table
    exclusions: pa.Table
    waiting: int


def present_texts(chunks: pa.Table | None, exclusions: pa.Table | None) -> set[TextId]:
    """The texts that the stored tables of a partition account for, without those that wait; none if
    one is missing.
    """
    if chunks is None or exclusions is None:
        return set()
    waits = pc.equal(exclusions.column("reason"), SLOW_LANE)
    accounted = {*_texts(chunks), *_texts(exclusions.filter(pc.invert(waits)))}
    return accounted.difference(_texts(exclusions.filter(waits)))


def chunks_in_time(
    messages: pa.Table,
    blocks: pa.Table,
    attachments: pa.Table,
    settings: ChunkSettings,
    *,
    present: Collection[TextId] = (),
    at_once: AtOnce = AT_ONCE,
) -> Chunked:
    """`message_chunks`, without the very long texts that are not yet `present` if these have more
    bytes than `at_once` says.

    Bodies above `slow_body_chars` characters are very long, attachments with the lane `slow`, and
    the segments of patches that change more than `PATCH_FILES` files. A text that is left out has
    an exclusion with the reason `slow_lane`.
    """
    waiting = _long_texts(messages, attachments, settings)
    waiting = waiting.filter(
        pa.array([text not in present for text in _texts(waiting)], pa.bool_())
    )
    size = pc.sum(waiting.column("byte_end")).as_py() or 0
    text_size = _bytes(messages, "body") + _bytes(attachments, "text")
    if size <= max(at_once.little, at_once.share * text_size):
        return Chunked(*message_chunks(messages, blocks, attachments, settings), 0)
    ids = waiting.column("attachment_id")
    bodies = pc.is_in(
        messages.column("message_id"), waiting.filter(pc.is_null(ids)).column("doc_id")
    )
    parts = pc.drop_null(ids).combine_chunks()
    tables = message_chunks(
        messages,
        blocks,
        attachments.filter(pc.invert(_are_slow(attachments, parts))),
        settings,
        bodies=messages.filter(pc.invert(bodies)),
    )
    accounted = pc.is_in(tables.exclusions.column("attachment_id"), parts)
    return Chunked(
        tables.chunks.filter(pc.invert(_are_slow(tables.chunks, parts))),
        pa.concat_tables([tables.exclusions.filter(pc.invert(accounted)), waiting]),
        size,
    )


def _are_slow(rows: pa.Table, parts: pa.Array) -> pa.Array:
    return pc.and_(
        pc.is_in(rows.column("attachment_id"), parts), pc.equal(rows.column("lane"), "slow")
    )


def _texts(rows: pa.Table) -> list[TextId]:
    return list(
        zip(
            rows.column("doc_id").to_pylist(), rows.column("attachment_id").to_pylist(), strict=True
        )
    )


def _bytes(rows: pa.Table, text: str) -> int:
    return pc.sum(pc.binary_length(rows.column(text))).as_py() or 0


def _long_texts(messages: pa.Table, attachments: pa.Table, settings: ChunkSettings) -> pa.Table:
    bodies = messages.filter(
        pc.greater(pc.utf8_length(messages.column("body")), settings.slow_body_chars)
    )
    patches = pc.equal(attachments.column("content_class"), "patch")
    slow = pc.equal(attachments.column("lane"), "slow")
    texts = attachments.filter(pc.and_(patches, pc.invert(slow))).select(["attachment_id", "text"])
    large = [
        part for part, text in zip(*texts.to_pydict().values(), strict=True) if has_many_files(text)
    ]
    is_large = pc.is_in(attachments.column("attachment_id"), pa.array(large, pa.string()))
    parts = attachments.filter(pc.or_(slow, is_large))
    return pa.concat_tables([_excluded(bodies, "body"), _excluded(parts, "text")])


def _excluded(rows: pa.Table, text: str) -> pa.Table:
    count = len(rows)
    ids = rows.column("attachment_id") if text == "text" else pa.nulls(count, pa.string())
    columns = {
        "doc_id": rows.column("message_id"),
        "attachment_id": ids,
        "source": rows.column("source"),
        "partition": rows.column("partition"),
        "byte_start": pa.array([0] * count, pa.int64()),
        "byte_end": pc.cast(pc.binary_length(rows.column(text)), pa.int64()),
        "reason": pa.array([SLOW_LANE] * count, pa.string()),
    }
    return pa.table([columns[name] for name in EXCLUSIONS.names], EXCLUSIONS.arrow)
