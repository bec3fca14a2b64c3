"""Hits and the facts that stages read of them, written by hand."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from transforms.retrieval.fusion import FUSED
from transforms.retrieval.hits import FACTS, REVISION, best_first, from_candidates


def hits_of(
    scores: Mapping[int, Sequence[float]],
    documents: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    **columns: Sequence[float | int | None],
) -> pl.DataFrame:
    """Hits of queries with these scores, chunks numbered from 0 in each; other columns are by
    chunk.
    """
    rows = [
        (query, chunk, score)
        for query, found in scores.items()
        for chunk, score in enumerate(found)
    ]
    frame = pl.DataFrame(
        rows, schema={"query": pl.Int32, "chunk_no": pl.Int64, "score": pl.Float64}, orient="row"
    )
    numbers = frame.get_column("chunk_no").to_list()
    by_chunk = {"document": documents, "thread": threads, **columns}
    frame = frame.with_columns(
        pl.Series(name, [n if values is None else values[n] for n in numbers], dtype=FUSED[name])
        for name, values in by_chunk.items()
    )
    rest = {
        "is_mail": True,
        "fused_score": pl.col("score"),
        "thread_score": 0.0,
        "lexical_score": 0.0,
        "vector_score": 0.0,
        "lexical_rank": None,
        "vector_rank": None,
    }
    missing = {n: v for n, v in rest.items() if n not in frame.columns}
    fused = frame.with_columns(**missing).select(pl.col(n).cast(t) for n, t in FUSED.items())
    return best_first(from_candidates(fused))


def with_facts(
    hits: pl.DataFrame,
    path_of: Mapping[int, Sequence[Mapping[str, object]]] | None = None,
    vectors: np.ndarray | None = None,
    origins: Sequence[Mapping[str, object]] | None = None,
    source_of: Mapping[int, str] | None = None,
) -> pl.DataFrame:
    """Hits with the facts that are given, by chunk number."""
    columns: dict[str, list[object]] = {}
    numbers = hits.get_column("chunk_no").to_list()
    if path_of is not None:
        columns["path"] = [path_of.get(n) for n in numbers]
    if vectors is not None:
        columns["vector"] = [vectors[n].tolist() for n in numbers]
    if origins is not None:
        rows = [origins[n] for n in numbers]
        columns |= {name: [row.get(name) for row in rows] for name in REVISION}
    if source_of is not None:
        columns["source"] = [source_of[n] for n in numbers]
    return hits.with_columns(
        pl.Series(name, values, dtype=FACTS[name]) for name, values in columns.items()
    )
