"""The table of hits that every stage behind the fusion takes and returns, and the facts a stage may read of each."""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from transforms.retrieval.fusion import FUSED
from transforms.retrieval.reranking import RERANKED

HITS: dict[str, pl.DataType | type[pl.DataType]] = {**FUSED, "stands_for": pl.String, **RERANKED}
"""Columns of hits, in their order, best first within a query. `stands_for` is the node that a hit shows in
place of its parts; null if it is its own chunk."""

DROPPED = {"query": pl.Int32, "chunk_no": pl.Int64, "reason": pl.String, "into": pl.Int64}
"""Columns of what a stage dropped: why, and the chunk of the hit that stands for it, null if none does."""


ORIGIN: dict[str, pl.DataType | type[pl.DataType]] = {
    "doc_id": pl.String,
    "checksum": pl.String,
    "quoted_from": pl.String,
}
"""The facts by which a stage knows that two chunks say the same. `quoted_from` is the mail that a chunk repeats and
nothing else."""

REVISION: dict[str, pl.DataType | type[pl.DataType]] = {
    "revision": pl.Int32,
    "version": pl.Int64,
    "is_latest": pl.Boolean,
}
"""The facts by which a stage knows the latest posting of a patch: `revision` is a number that all of them have, null for
what is not a patch."""

FACTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "path": pl.List(
        pl.Struct(
            {"node_id": pl.String, "parent_id": pl.String, "depth": pl.Int64, "sibling_count": pl.Int64}
        )
    ),
    **ORIGIN,
    **REVISION,
    "vector": pl.List(pl.Float32),
}
"""Columns that stand beside HITS where a stage reads them. `path` is the node of a chunk of a document and the nodes
above it, the nearest first; `vector` a unit vector."""


class Patches(NamedTuple):
    """Of each chunk the patch that its mail posts, as a number, -1 for none, the version, and if it is the latest."""

    number: np.ndarray
    version: np.ndarray
    is_latest: np.ndarray


class Step(NamedTuple):
    """What a stage makes: hits that stay, in their new order, and DROPPED."""

    hits: pl.DataFrame
    dropped: pl.DataFrame


class Report(Protocol):
    """Gets a stage's list for the queries of a batch: its hits, best first, and what it dropped."""

    def __call__(self, stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        """Take note of it; `hits` has query, chunk_no and score, and of later stages all of HITS, perhaps with FACTS."""


def best_first(hits: pl.DataFrame) -> pl.DataFrame:
    """Hits of each query by score, those that a reranker looked at before the others; ties by chunk number."""
    return hits.sort(
        "query",
        pl.col("rerank_score").is_null(),
        "score",
        "rank_before",
        "chunk_no",
        descending=[False, False, True, False, False],
    )


def parted(
    hits: pl.DataFrame, keep: pl.Expr | pl.Series, reason: pl.Expr, into: pl.Expr | None = None
) -> Step:
    """The hits that `keep` is true of, and the others as dropped, for a reason and into a chunk."""
    keeps = keep if isinstance(keep, pl.Series) else hits.select(keep).to_series()
    if keeps.all():
        return unchanged(hits)
    to = pl.lit(None, pl.Int64) if into is None else into.cast(pl.Int64)
    drops = hits.select("query", "chunk_no", reason=reason, into=to).filter(~keeps)
    return Step(hits.filter(keeps), drops)


def unchanged(hits: pl.DataFrame) -> Step:
    """A step that drops nothing."""
    return Step(hits, nothing_dropped())


@functools.cache
def nothing_dropped() -> pl.DataFrame:
    """DROPPED without rows."""
    return pl.DataFrame(schema=DROPPED)


def place() -> pl.Expr:
    """The place of each hit in the list of its query, from 1."""
    return pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query")


def places(hits: pl.DataFrame) -> pl.Series:
    """The same of hits whose queries ascend, which takes a tenth of the time of a window."""
    queries = hits.get_column("query").to_numpy()
    rank = np.arange(1, len(queries) + 1) - np.searchsorted(queries, queries)
    return pl.Series("rank", rank.astype(np.int32))


def from_candidates(fused: pl.DataFrame) -> pl.DataFrame:
    """Candidates (`ranking.FUSED`) with the other columns of HITS, all null."""
    return fused.with_columns(_no_more(tuple(fused.columns)))


@functools.cache
def _no_more(columns: tuple[str, ...]) -> list[pl.Expr]:
    """The other columns of HITS, null; made once, as each of a dozen costs more than its values."""
    return [pl.lit(None, kind).alias(name) for name, kind in HITS.items() if name not in columns]
