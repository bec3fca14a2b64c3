"""Vectors as tables: batches of texts going out, checked vectors coming back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ibis
import numpy as np
import pyarrow as pa

from transforms import schemas
from transforms.errors import EmbeddingError


def batches(texts: ibis.Table, hashes: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of `texts` (text_hash, text) with one of `hashes`, one per hash, at most `size` a batch."""
    if not hashes:
        return
    wanted = ibis.memtable({"text_hash": list(hashes)})
    chosen = texts.filter(texts.text_hash.isin(wanted.text_hash))
    chosen = chosen.group_by("text_hash").agg(text=chosen.text.min())
    for batch in chosen.to_pyarrow_batches(chunk_size=size):
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)


def require_usable(vectors: np.ndarray, count: int, dimensions: int) -> None:
    """EmbeddingError unless there are `count` vectors of `dimensions` finite numbers and unit length."""
    if vectors.shape != (count, dimensions):
        raise EmbeddingError(f"{count} texts of {dimensions} dimensions went out, {vectors.shape} came back")
    norms = np.linalg.norm(vectors, axis=1)
    if not (np.abs(norms - 1) < 1e-3).all():
        raise EmbeddingError(
            f"a vector of length {norms[np.argmax(np.abs(norms - 1))]} came back; they must be 1"
        )


def embeddings(found: pa.Table, model: str, dimensions: int) -> pa.Table:
    """The `embeddings` table from `text_hash` and `vector`."""
    count = found.num_rows
    table = pa.table(
        {
            "text_hash": found.column("text_hash"),
            "model": pa.array([model] * count, pa.string()),
            "dimensions": pa.array([dimensions] * count, pa.int32()),
            "task": pa.array(["document"] * count, pa.string()),
            "vector": found.column("vector"),
        }
    )
    return schemas.embeddings(dimensions).conform(table)
