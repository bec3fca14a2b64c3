"""The vectors of a version as arrays: beside its file, or until they are sent to the service that has them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.posting_arrays import WrittenArray
from transforms.embedding.sign_codes import WORD, sign_codes
from transforms.embedding.vectors import stacked

VECTORS_IN = "vectors_in"
"""The entry of the manifest with the service that has the vectors of a version, which has none, nor a table of postings."""
_VECTORS_AT_ONCE = 1 << 15


def write_vectors(
    connection: duckdb.DuckDBPyConnection, folder: Path, count: int, dimensions: int, relation: str
) -> None:
    """Write the vectors of a relation by chunk number, zeros if there is none, and the words of their signs."""
    folder.mkdir(exist_ok=True)
    codes = np.empty((-(-dimensions // WORD), count), dtype=np.uint64)
    done = 0
    with WrittenArray(folder / "vectors.npy", np.float32, dimensions) as array:

        def add(rows: np.ndarray, target: np.ndarray, until: int) -> int:
            part = np.zeros((until - done, dimensions), dtype=np.float32)
            part[rows - done] = target
            codes[:, done:until] = sign_codes(part)
            array.add(part)
            return until

        numbers = connection.execute(f"SELECT chunk_no FROM {relation}").fetchnumpy()["chunk_no"]
        in_order = "" if (np.diff(numbers) > 0).all() else "ORDER BY chunk_no"
        found = connection.execute(f"SELECT chunk_no, vector FROM {relation} {in_order}")
        for batch in found.to_arrow_reader(_VECTORS_AT_ONCE):
            rows = batch.column("chunk_no").to_numpy()
            done = add(rows, stacked(pa.Table.from_batches([batch]), dimensions), int(rows[-1]) + 1)
        add(np.zeros(0, dtype=np.int64), np.zeros((0, dimensions), dtype=np.float32), count)
    np.save(folder / "vector_codes.npy", codes)


def vectors_of(
    connection: duckdb.DuckDBPyConnection, statement: str, chunks: np.ndarray, dimensions: int
) -> np.ndarray:
    """The vectors that a statement selects, of chunks whose numbers ascend; zeros for one that has none."""
    vectors = np.zeros((len(chunks), dimensions), dtype=np.float32)
    table = connection.execute(statement).to_arrow_table()
    vectors[np.searchsorted(chunks, table.column("chunk_no").to_numpy())] = stacked(table, dimensions)
    return vectors
