"""Hits and what stages ask of an index, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from transforms.retrieval.fusion import FUSED
from transforms.retrieval.hits import best_first, from_candidates
from transforms.settings.search import SearchSettings

ORIGINS = {
    "chunk_no": pl.Int64,
    "doc_id": pl.String,
    "checksum": pl.String,
    "quoted_from": pl.String,
    "revision": pl.String,
    "version": pl.Int64,
    "is_latest": pl.Boolean,
}


def hits_of(
    scores: Mapping[int, Sequence[float]],
    documents: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    **columns: Sequence[float | int | None],
) -> pl.DataFrame:
    """Hits of queries with these scores, chunks numbered from 0 in each; other columns are by chunk."""
    rows = [(query, chunk, score) for query, found in scores.items() for chunk, score in enumerate(found)]
    frame = pl.DataFrame(
        rows, schema={"query": pl.Int32, "chunk_no": pl.Int64, "score": pl.Float64}, orient="row"
    )
    numbers = frame.get_column("chunk_no").to_list()
    by_chunk = {"document": documents, "thread": threads, **columns}
    frame = frame.with_columns(
        pl.Series(name, [n if values is None else values[n] for n in numbers], dtype=FUSED[name])
        for name, values in by_chunk.items()
    )
    rest = {"fused_score": pl.col("score"), "thread_score": 0.0, "lexical_score": 0.0, "vector_score": 0.0,
            "lexical_rank": None, "vector_rank": None}  # fmt: skip
    missing = {n: v for n, v in rest.items() if n not in frame.columns}
    fused = frame.with_columns(**missing).select(pl.col(n).cast(t) for n, t in FUSED.items())
    return best_first(from_candidates(fused))


@dataclass
class Facts:
    """A `Context` of tables: nodes of chunks and the tree above them, vectors, origins, sources, by chunk number."""

    node_of: Mapping[int, str] = field(default_factory=dict)
    nodes_: Mapping[str, tuple[str | None, int, int]] = field(default_factory=dict)
    vectors_: np.ndarray = field(default_factory=lambda: np.empty((0, 2), dtype=np.float32))
    origins_: Sequence[Mapping[str, object]] = ()
    source_of: Mapping[int, str] = field(default_factory=dict)

    def reranked(self, hits: pl.DataFrame, settings: SearchSettings) -> pl.DataFrame:
        raise AssertionError("no test reranks by hand")

    def sources(self, chunks: pl.Series) -> pl.DataFrame:
        rows = [(n, self.source_of[n]) for n in chunks]
        return pl.DataFrame(rows, schema={"chunk_no": pl.Int64, "source": pl.String}, orient="row")

    def vectors(self, chunks: pl.Series) -> np.ndarray:
        return self.vectors_[chunks.to_numpy()]

    def nodes(self, chunks: pl.Series) -> pl.DataFrame:
        rows = [(n, self.node_of[n]) for n in chunks if n in self.node_of]
        return pl.DataFrame(rows, schema={"chunk_no": pl.Int64, "node_id": pl.String}, orient="row")

    def tree(self, chunks: pl.Series) -> pl.DataFrame:
        rows = [(name, *rest) for name, rest in self.nodes_.items()]
        schema = {"node_id": pl.String, "parent_id": pl.String, "depth": pl.Int64, "sibling_count": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def origins(self, chunks: pl.Series) -> pl.DataFrame:
        plain = {"checksum": None, "quoted_from": None, "revision": None, "version": None, "is_latest": None}
        rows = [{"chunk_no": n, "doc_id": f"d{n}", **plain, **row} for n, row in enumerate(self.origins_)]
        return pl.DataFrame(rows, schema=ORIGINS).filter(pl.col("chunk_no").is_in(chunks.to_list()))
