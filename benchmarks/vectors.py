"""Nearest vectors by three paths, beside each other: every vector (`array_cosine_distance` in SQL and
the product with the matrix), the HNSW index of DuckDB's VSS, and sign codes.

    python benchmarks/vectors.py FOLDER [--sizes 2000 5000 20000 60000 200000]

FOLDER has text files of any kind, which are cut into pieces of 600 characters and embedded with the
packaged table; where a size is above that of `--texts`, the others are copies of their vectors with
noise, as in benchmarks/replicas.py. Printed are processor seconds, since wall time depends on what
else runs: of the build of an index, its bytes in the file, milliseconds a query, and the share of
the ten nearest that a path finds, over 100 pieces that are not among the vectors.
"""

import gzip
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from printing import new_parser
from replicas import NOISE

from dagster_project.index.publish import vector_index
from dagster_project.models.embedders import make_embedder
from transforms.embedding.sign_codes import hamming, sign_codes
from transforms.settings.models import EmbeddingSettings

_PIECE, _QUERIES, _K, _LOOKED_AT = 600, 100, 10, 512


def main() -> None:
    """Print a line of JSON for each size."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[2_000, 5_000, 20_000, 60_000, 200_000]
    )
    parser.add_argument("--texts", type=int, default=200_000, help="pieces; default %(default)s")
    options = parser.parse_args()
    most = min(options.texts, max(options.sizes)) + _QUERIES
    texts = list(dict.fromkeys(_pieces(options.folder, most * 2)))[:most]
    vectors = make_embedder(EmbeddingSettings()).embed_documents(texts)
    step = max(1, len(texts) // _QUERIES)
    asked = np.arange(len(texts)) % step == 0
    queries, stored = vectors[asked][:_QUERIES], vectors[~asked]
    stored = _copied(stored, max(options.sizes))
    for size in options.sizes:
        print(json.dumps(measured(stored[:size], queries)), flush=True)


def _copied(vectors: np.ndarray, most: int) -> np.ndarray:
    """The vectors, and behind them copies of them with noise, each time with other noise."""
    count, dimensions = vectors.shape
    if most <= count:
        return vectors
    grown = np.tile(vectors, (-(-most // count), 1))[:most]
    for start in range(count, most, count):
        part = grown[start : start + count]
        noise = np.random.default_rng(start).standard_normal(part.shape, dtype=np.float32)
        part += noise * np.float32(NOISE / np.sqrt(dimensions))
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return grown


def _pieces(folder: Path, most: int) -> Iterator[str]:
    count = 0
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode(errors="replace")
        for start in range(0, len(text), _PIECE):
            yield text[start : start + _PIECE]
            count += 1
            if count >= most:
                return


def measured(vectors: np.ndarray, queries: np.ndarray) -> dict[str, object]:
    """The figures of all paths over some vectors."""
    best = [set(np.argsort(-(vectors @ q), kind="stable")[:_K].tolist()) for q in queries]
    figures: dict[str, object] = {"vectors": len(vectors)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.duckdb"
        dimensions = vectors.shape[1]
        with duckdb.connect(str(file), config={"threads": 1}) as connection:
            kind = pa.list_(pa.float32(), dimensions)
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=kind)
            rows = pa.table({"chunk_no": np.arange(len(vectors)), "vector": column})
            connection.register("stored_rows", rows)
            connection.execute("CREATE TABLE embeddings AS FROM stored_rows")
            connection.execute("CHECKPOINT")
            statement = vector_index.nearest(dimensions, "chunk_no", _K)

            def by_sql(query: np.ndarray) -> list[int]:
                found = connection.execute(statement, [str(query.tolist())]).fetchall()
                return [row[0] for row in found]

            figures["sql_exact"] = _timed(by_sql, queries, best)
            bytes_before, start = file.stat().st_size, time.process_time()
            vector_index.create_hnsw(connection)
            connection.execute("CHECKPOINT")
            figures["hnsw_build_s"] = round(time.process_time() - start, 1)
            figures["hnsw_bytes"] = file.stat().st_size - bytes_before
            figures["table_bytes"] = bytes_before
            for in_view in (64, 256):
                vector_index.use(connection, in_view)
                figures[f"hnsw_{in_view}"] = _timed(by_sql, queries, best)
    figures["matrix"] = _timed(
        lambda q: np.argpartition(-(vectors @ q), _K)[:_K].tolist(), queries, best
    )
    figures["codes"] = _codes(vectors, queries, best)
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return figures


def _timed(
    find: Callable[[np.ndarray], list[int]], queries: np.ndarray, best: list[set[int]]
) -> dict[str, float]:
    find(queries[0])
    start = time.process_time()
    found = [set(find(query)) for query in queries]
    took = (time.process_time() - start) * 1000 / len(queries)
    hits = [len(a & b) / _K for a, b in zip(found, best, strict=True)]
    return {"ms": round(took, 2), "recall": round(float(np.mean(hits)), 3)}


def _codes(vectors: np.ndarray, queries: np.ndarray, best: list[set[int]]) -> dict[str, float]:
    codes = sign_codes(vectors)

    def find(query: np.ndarray) -> list[int]:
        distances = hamming(codes, sign_codes(query[np.newaxis])[:, 0])
        near = np.argpartition(distances, _LOOKED_AT)[:_LOOKED_AT]
        return near[np.argpartition(-(vectors[near] @ query), _K)[:_K]].tolist()

    return _timed(find, queries, best)


if __name__ == "__main__":
    main()
