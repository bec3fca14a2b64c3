"""The table `chunks` of mail: batches of bodies and attachments, and the account of text without a
chunk.

`replies` pairs replies with quotes, `attachments` cuts attachments, and `drafts` fills the columns.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.chunks.table import ChunkTables
from transforms.mail.chunks.attachments import emit_attachment
from transforms.mail.chunks.drafts import Drafts, SharedColumns
from transforms.mail.chunks.replies import BLOCK_KINDS, Body, BodyBlocks
from transforms.mail.headers import is_reply
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS
from transforms.settings.mail import ChunkSettings

CHUNKER = "mail"

BATCH_BYTES = 8 << 20
"""Bytes of text in one batch, so that memory does not grow with the number of mails."""

SUBJECT_NOISE = re.compile(
    r"^\s*(?:(?:re|fwd?|aw|sv|vs|antw|wg|odp|rif|tr|回复|答复|转发)(?:\[\d+\])?\s*[:：]|"
    r"\[(?![^\]]*\b(?:PATCH|RFC|BUG|GIT|ANNOUNCE)\b)[^\]\n]{1,30}\](?=\s*\S))\s*",
    re.IGNORECASE,
)


def message_chunks(
    messages: pa.Table,
    blocks: pa.Table,
    attachments: pa.Table,
    settings: ChunkSettings,
    *,
    bodies: pa.Table | None = None,
) -> ChunkTables:
    """Chunks of bodies and attachments, and the exclusions that account for every other byte.

    `messages` own the attachments; `bodies` are the rows of it whose bodies are cut, by default
    all.

    The tables conform to `schemas.CHUNKS` and `schemas.EXCLUSIONS` and are ordered by message, by
    attachment and by position. Rules 1 to 6, the chunk kinds and the default sizes are those of the
    pginbox design. Spans are byte ranges of the stored body or attachment text; a chunk
    id depends on the document, the kind and the text, never on a position.
    """
    chunks, excluded = [CHUNKS.empty()], [EXCLUSIONS.empty()]
    batches = (
        _body_drafts(messages if bodies is None else bodies, blocks, settings),
        _attachment_drafts(messages, attachments, settings),
    )
    for drafts, table in _with_tables(chain(*batches), settings):
        chunks.append(table)
        excluded.append(_exclusions(drafts))
    return ChunkTables(pa.concat_tables(chunks), pa.concat_tables(excluded))


def _with_tables(
    batches: Iterable[Drafts], settings: ChunkSettings
) -> Iterator[tuple[Drafts, pa.Table]]:
    """Each batch with its table: Polars builds the table while Python cuts the next batch."""
    id_counts: dict[str, int] = {}
    with ThreadPoolExecutor(1) as worker:
        pending: tuple[Drafts, Future[pa.Table]] | None = None
        for drafts in batches:
            if pending:
                yield pending[0], pending[1].result()
            pending = drafts, worker.submit(drafts.chunks, CHUNKER, id_counts, settings)
        if pending:
            yield pending[0], pending[1].result()


def _exclusions(drafts: Drafts) -> pa.Table:
    rows = zip(*drafts.excluded, strict=True) if drafts.excluded else [()] * len(EXCLUSIONS.names)
    arrays = [pa.array(r, f.type) for r, f in zip(rows, EXCLUSIONS.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=EXCLUSIONS.arrow)


def title_of(subject: str) -> str:
    """The subject without reply marks and list tags; tags such as `[PATCH v2 1/3]` stay.

    >>> title_of("Re: [pgsql-general] Fwd: [PATCH v2] vacuum")
    '[PATCH v2] vacuum'
    """
    title = subject
    while (noise := SUBJECT_NOISE.match(title)) and noise.end() > 0:
        title = title[noise.end() :]
    return title.strip()


def _body_drafts(messages: pa.Table, blocks: pa.Table, settings: ChunkSettings) -> Iterator[Drafts]:
    """The drafts of all bodies, batch by batch."""
    blocks_of = _BlockIndex(blocks)
    for mails in _batches(messages, ["message_id", "source", "partition"], "body"):
        drafts = Drafts()
        for mail in mails.select(*_MAIL).iter_rows():
            body = mail[7]
            lane = "slow" if len(body) > settings.slow_body_chars else "fast"
            document = _document(mail[:7], None, "", lane)
            document = document._replace(
                is_reply=document.parent_id is not None or is_reply(mail[4] or "")
            )
            drafts.open(document)
            Body(body, blocks_of(document.doc_id), document.is_reply, mail[8], settings).emit(
                drafts
            )
        yield drafts


def _attachment_drafts(
    messages: pa.Table, attachments: pa.Table, settings: ChunkSettings
) -> Iterator[Drafts]:
    """The drafts of all attachments, batch by batch; the first mail of an id owns its attachments."""
    if not len(attachments):
        return
    ids = pl.DataFrame(attachments.select(["message_id"])).unique()
    mails = pl.DataFrame(messages.select(_MAIL[:7])).join(ids, on="message_id", how="semi")
    owners = {
        m[0]: m for m in mails.sort("message_id", "source", "partition").reverse().iter_rows()
    }
    for parts in _batches(
        attachments, ["message_id", "part_index", "attachment_id"], "text", "picture"
    ):
        drafts = Drafts()
        for part in parts.iter_rows(named=True):
            message_id = part["message_id"]
            owner = owners.get(message_id) or (message_id, "", "", "", "", None, None)
            document = _document(owner, part["attachment_id"], part["filename"] or "", part["lane"])
            drafts.open(document._replace(source=part["source"], partition=part["partition"]))
            emit_attachment(part, drafts, settings)
        yield drafts


_MAIL = [
    "message_id",
    "content_hash",
    "source",
    "partition",
    "subject",
    "in_reply_to",
    "refs",
    "body",
    "body_format",
]


def _document(
    mail: tuple[Any, ...], attachment_id: str | None, filename: str, lane: str
) -> SharedColumns:
    """The columns that all chunks of a mail (the first seven columns of _MAIL) or of its attachment
    share.
    """
    message_id, content_hash, source, partition, subject, in_reply_to, refs = mail
    parent = in_reply_to or (refs[-1] if refs else None)
    title = title_of(subject)
    return SharedColumns(
        message_id,
        content_hash,
        source,
        partition,
        title,
        False,
        parent,
        attachment_id,
        filename,
        lane,
    )


def _batches(table: pa.Table, order: list[str], *texts: str) -> Iterator[pl.DataFrame]:
    """The rows in `order`, in batches whose texts have about BATCH_BYTES."""
    frame = pl.DataFrame(table)
    rows = frame.select(pl.arg_sort_by(order)).to_series()
    bytes_of_texts = pl.sum_horizontal(pl.col(texts).str.len_bytes().fill_null(0))
    sizes = frame.select(bytes_of_texts).to_series().gather(rows)
    number = sizes.cast(pl.Int64).cum_sum().to_numpy() // BATCH_BYTES
    edges = np.flatnonzero(np.diff(number, prepend=-1, append=np.iinfo(np.int64).max)).tolist()
    for start, end in zip(edges, edges[1:], strict=False):
        yield frame[rows[start:end]]


class _BlockIndex:
    def __init__(self, blocks: pa.Table) -> None:
        frame = pl.DataFrame(
            blocks.select(["message_id", "block_index", "kind", "quote_depth", "char_length"])
        )
        frame = frame.sort("message_id", "block_index", maintain_order=True)
        ids = frame["message_id"].rle().struct.unnest()
        ends = ids["len"].cum_sum().to_list()
        self.rows = {m: (e - n, e) for m, e, n in zip(ids["value"], ends, ids["len"], strict=True)}
        self.kinds = frame["kind"].replace_strict(BLOCK_KINDS, return_dtype=pl.Int8).to_list()
        self.depths = frame["quote_depth"].to_list()
        self.ends = (
            frame.select(pl.col("char_length").cum_sum().over("message_id")).to_series().to_list()
        )

    def __call__(self, message_id: str) -> BodyBlocks:
        first, last = self.rows.get(message_id, (0, 0))
        return BodyBlocks(
            self.kinds[first:last], self.depths[first:last], [0, *self.ends[first:last]]
        )
