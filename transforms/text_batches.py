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
    chosen = texts.filter(texts.text_hash.isin(wanted.text_hash))
    chosen = chosen.group_by("text_hash").agg(text=chosen.text.min())
    waiting: list[pa.RecordBatch] = []
    for batch in chosen.to_pyarrow_batches(chunk_size=size):
        waiting.append(batch)
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
