"""Texts to embed, read from a table in batches of one size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ibis
import pyarrow as pa


def batches(texts: ibis.Table, hashes: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of `texts` (text_hash, text) with one of `hashes`, one per hash, `size` a batch, the last fewer."""
    if not hashes:
        return
    requested = ibis.memtable(pa.table({"text_hash": pa.array(hashes, pa.string())}))
    rows_to_embed = texts.filter(texts.text_hash.isin(requested.text_hash)).select("text_hash", "text")
    waiting: list[pa.RecordBatch] = []
    seen: set[str] = set()
    for batch in rows_to_embed.to_pyarrow_batches(chunk_size=size):
        waiting.append(_unseen(batch, seen))
        if sum(b.num_rows for b in waiting) < size:
            continue
        # The engine hands out batches of any size: those of full size are cut from their sum.
        rows = pa.concat_batches(waiting)
        full_rows = rows.num_rows - rows.num_rows % size
        yield from (rows.slice(start, size) for start in range(0, full_rows, size))
        waiting = [rows.slice(full_rows)]
    last = pa.concat_batches(waiting) if waiting else None
    if last is not None and last.num_rows:
        yield last


def _unseen(batch: pa.RecordBatch, seen: set[str]) -> pa.RecordBatch:
    """The rows whose hash is not in `seen`, to which they are added: to group all texts would hold all of them."""
    rows = []
    for row, name in enumerate(batch.column("text_hash").to_pylist()):
        if name not in seen:
            seen.add(name)
            rows.append(row)
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))
