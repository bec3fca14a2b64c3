"""Texts to embed, read from a table in batches of one size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ibis
import pyarrow as pa


def batches(texts: ibis.Table, hashes: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of `texts` (text_hash, text) with one of `hashes`, one per hash, `size` a batch, the last fewer."""
    if not hashes:
        return
    wanted = ibis.memtable({"text_hash": list(hashes)})
    chosen = texts.filter(texts.text_hash.isin(wanted.text_hash)).select("text_hash", "text")
    waiting: list[pa.RecordBatch] = []
    given: set[str] = set()
    for batch in chosen.to_pyarrow_batches(chunk_size=size):
        waiting.append(_not_given(batch, given))
        if sum(b.num_rows for b in waiting) < size:
            continue
        # The engine hands out batches of any size: those of full size are cut from their sum.
        rows = pa.concat_batches(waiting)
        whole = rows.num_rows - rows.num_rows % size
        yield from (rows.slice(start, size) for start in range(0, whole, size))
        waiting = [rows.slice(whole)]
    rest = pa.concat_batches(waiting) if waiting else None
    if rest is not None and rest.num_rows:
        yield rest


def _not_given(batch: pa.RecordBatch, given: set[str]) -> pa.RecordBatch:
    """The rows whose hash is not in `given`, to which they are added: to group all texts would hold all of them."""
    rows = []
    for row, name in enumerate(batch.column("text_hash").to_pylist()):
        if name not in given:
            given.add(name)
            rows.append(row)
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))
