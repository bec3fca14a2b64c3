"""The table of hits that every stage behind the fusion takes and returns, and what a stage may ask of the index."""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from transforms.retrieval.fusion import FUSED
from transforms.retrieval.reranking import RERANKED
from transforms.settings.search import SearchSettings

HITS: dict[str, pl.DataType | type[pl.DataType]] = {**FUSED, "stands_for": pl.String, **RERANKED}
"""Columns of hits, in their order, best first within a query. `stands_for` is the node that a hit shows in
place of its parts; null where it is its own chunk."""

DROPPED = {"query": pl.Int32, "chunk_no": pl.Int64, "reason": pl.String, "into": pl.Int64}
"""Columns of what a stage dropped: why, and the chunk of the hit that stands for it, null if none does."""


class Step(NamedTuple):
    """What a stage makes: HITS that stay, in their new order, and DROPPED."""

    hits: pl.DataFrame
    dropped: pl.DataFrame


class Context(Protocol):
    """What stages ask of the index, each answered for the chunks at hand alone."""

    def reranked(self, hits: pl.DataFrame, settings: SearchSettings) -> pl.DataFrame:
        """HITS (with `rank`) in the order that a reranker gives them, if there is one, with the columns RERANKED."""

    def sources(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns chunk_no and source."""

    def vectors(self, chunks: pl.Series) -> np.ndarray:
        """Unit vectors in the order of the chunks, float32."""

    def nodes(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns chunk_no and node_id, of chunks of documents alone."""

    def tree(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns node_id, parent_id, depth and sibling_count: all nodes of the documents of these chunks."""

    def origins(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns chunk_no, doc_id, checksum, quoted_from, revision, version and is_latest.

        `quoted_from` is the mail that a chunk repeats and nothing else; `revision` is equal for the postings of
        one patch, null for what is no patch.
        """


class Report(Protocol):
    """Is told of a stage's list for the queries of a batch: its hits, best first, and what it dropped."""

    def __call__(self, stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        """Take note of it; `hits` has query, chunk_no and score, and of later stages all of HITS."""


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


def parted(hits: pl.DataFrame, keep: pl.Expr, reason: pl.Expr, into: pl.Expr | None = None) -> Step:
    """The hits that `keep` is true of, and the others as dropped, for a reason and into a chunk."""
    kept = hits.select(keep).to_series()
    if kept.all():
        return unchanged(hits)
    to = pl.lit(None, pl.Int64) if into is None else into.cast(pl.Int64)
    gone = hits.select("query", "chunk_no", reason=reason, into=to).filter(~kept)
    return Step(hits.filter(kept), gone)


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


def from_candidates(fused: pl.DataFrame) -> pl.DataFrame:
    """Candidates (`ranking.FUSED`) with the other columns of HITS, all null."""
    return fused.with_columns(_no_more(tuple(fused.columns)))


@functools.cache
def _no_more(columns: tuple[str, ...]) -> list[pl.Expr]:
    """The other columns of HITS, null; made once, as each of a dozen costs more than its values."""
    return [pl.lit(None, kind).alias(name) for name, kind in HITS.items() if name not in columns]
