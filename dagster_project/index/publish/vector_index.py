"""The HNSW index of DuckDB's VSS extension in a published file: made with the file, for SQL, and
measured.
"""

import json
import time
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_vss
import numpy as np
import pyarrow as pa

from dagster_project.index.publish.versions import version_of
from transforms.embedding.vectors import matrix

DROP = "DROP INDEX IF EXISTS embeddings_hnsw"
"""The statement before rows of `embeddings` change: deletes spoil the index, so each version has
one of its own.
"""
HNSW = "hnsw"
"""The value of `vector_search` in a manifest if the file has the index; `exact` otherwise."""
IN_VIEW = 256
"""Vectors that a search keeps in view, its `ef_search`: recall@10 .86, .96, .99, 1.0 at 32, 64
(DuckDB's), 128, 256.
"""
_QUERIES, _K = 30, 10
_ROWS_AT_ONCE = 10_000
_EQUAL = 1e-5
"""Cosines that differ by less are equal: float32."""


def create_hnsw(connection: duckdb.DuckDBPyConnection) -> float:
    """Make the index of the table `embeddings` in the open file; the seconds that took."""
    start = time.perf_counter()
    load_vss(connection)
    connection.execute("SET hnsw_enable_experimental_persistence = true")
    connection.execute(
        "CREATE INDEX embeddings_hnsw ON embeddings USING HNSW (vector) WITH (metric = 'cosine')"
    )
    return time.perf_counter() - start


def use(connection: duckdb.DuckDBPyConnection, in_view: int = IN_VIEW) -> None:
    """Let statements on a connection use the indexes of the files that it has open, with so many
    vectors in view.
    """
    load_vss(connection)
    connection.execute(f"SET hnsw_ef_search = {int(in_view)}")


def nearest(dimensions: int, columns: str, k: int) -> str:
    """The statement that selects `columns` of the `k` vectors nearest to its parameter; DuckDB
    plans it on the index.
    """
    return (
        f"SELECT {columns} FROM embeddings "
        f"ORDER BY array_cosine_distance(vector, ?::FLOAT[{int(dimensions)}]) LIMIT {int(k)}"
    )


def measured(file: Path) -> dict[str, Any]:
    """The facts of the index of a published file: kind (`hnsw` or `none`), vectors, seconds, and
    how well it finds.

    `recall_at_10` is the share of the ten nearest by exact search that the index finds too, a mean
    over 30 vectors of the file; `used_by_sql` says that DuckDB plans such a statement on the index.
    """
    with duckdb.connect(str(file), read_only=True) as connection:
        manifest = dict(connection.execute("FROM manifest").fetchall())
        vectors = int(json.loads(manifest["rows"])["embeddings"])
        facts = {"version": version_of(file), "kind": "none", "vectors": vectors}
        if manifest["vector_search"] != HNSW:
            return facts
        use(connection)
        rows = connection.execute(
            "SELECT vector FROM embeddings WHERE chunk_no % $step = 0 ORDER BY chunk_no LIMIT $most",
            {"step": max(1, vectors // _QUERIES), "most": _QUERIES},
        )
        queries = matrix(rows.to_arrow_table().column("vector"))
        k = min(_K, vectors)
        least = _least_of_best(connection, queries, k) - _EQUAL
        statement = nearest(queries.shape[1], "vector", k)
        # As a text: at each number of a list DuckDB looks for pandas.
        hits = []
        for query, bound in zip(queries, least, strict=True):
            neighbours = connection.execute(statement, [str(query.tolist())]).to_arrow_table()
            hits.append((matrix(neighbours.column("vector")) @ query >= bound).sum())
        plan = str(
            connection.execute(f"EXPLAIN {statement}", [str(queries[0].tolist())]).fetchall()
        )
    return {
        **facts,
        "kind": HNSW,
        "seconds": float(manifest["vector_index_seconds"]),
        "queries": len(queries),
        "recall_at_10": round(float(np.mean(hits)) / k, 4),
        "used_by_sql": "HNSW_INDEX_SCAN" in plan,
    }


def _least_of_best(
    connection: duckdb.DuckDBPyConnection, queries: np.ndarray, k: int
) -> np.ndarray:
    """For each query the cosine of its `k`th nearest vector, by comparing all."""
    best = np.empty((len(queries), 0), dtype=np.float32)
    for batch in connection.execute("SELECT vector FROM embeddings").to_arrow_reader(_ROWS_AT_ONCE):
        scores = np.hstack([best, queries @ matrix(pa.chunked_array([batch.column("vector")])).T])
        best = -np.partition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
    return best.min(axis=1)


def load_vss(connection: duckdb.DuckDBPyConnection) -> None:
    """Load the VSS extension (HNSW indexes) from the file in the `duckdb-extension-vss` wheel."""
    folder = Path(duckdb_extension_vss.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection.execute(f"LOAD '{folder / 'vss.duckdb_extension'}'")
