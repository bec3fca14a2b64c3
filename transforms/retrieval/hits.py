"""The table of hits that every stage behind the fusion takes and returns, and the facts a stage may
read of each.
"""

import functools
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from transforms.retrieval.fusion import FUSED
from transforms.retrieval.reranking import RERANKED
from transforms.retrieval.small_tables import rows_at

HITS: dict[str, pl.DataType | type[pl.DataType]] = {**FUSED, "stands_for": pl.String, **RERANKED}
"""Columns of hits, in their order, best first within a query. `stands_for` is the node that a hit
shows in place of its parts; null if it is its own chunk.
"""

DROPPED = {"query": pl.Int32, "chunk_no": pl.Int64, "reason": pl.String, "into": pl.Int64}
"""Columns of rows that a stage dropped: the reason, and the chunk of the hit that replaces them,
null without one.
"""


REVISION: dict[str, pl.DataType | type[pl.DataType]] = {
    "revision": pl.Int32,
    "version": pl.Int64,
    "is_latest": pl.Boolean,
}
"""The facts by which a stage knows the latest posting of a patch: `revision` is a number that all
of them have, null for other chunks.
"""

FACTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "path": pl.List(
        pl.Struct(
            {
                "node_id": pl.String,
                "parent_id": pl.String,
                "depth": pl.Int64,
                "sibling_count": pl.Int64,
            }
        )
    ),
    **REVISION,
    "vector": pl.List(pl.Float32),
}
"""Columns that stand beside HITS where a stage reads them. `path` is the node of a chunk of a
document and the nodes above it, the nearest first; `vector` a unit vector.
"""


class Patches(NamedTuple):
    """For each chunk the patch that its mail posts, as a number, -1 for none, the version, and if
    it is the latest.
    """

    number: np.ndarray
    version: np.ndarray
    is_latest: np.ndarray


class Step(NamedTuple):
    """The result of a stage: hits that stay, in their new order, and DROPPED."""

    hits: pl.DataFrame
    dropped: pl.DataFrame


class Report(Protocol):
    """Gets a stage's list for the queries of a batch: its hits, best first, and the dropped ones."""

    def __call__(self, stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        """Take note of it; `hits` has query, chunk_no and score, and of later stages all of HITS,
        perhaps with FACTS.
        """


def best_first(hits: pl.DataFrame) -> pl.DataFrame:
    """Hits of each query by score, those that a reranker looked at before the others; ties by chunk
    number.
    """
    chunks, before, score, again, queries = (
        hits.get_column(name).to_numpy()
        for name in ("chunk_no", "rank_before", "score", "rerank_score", "query")
    )
    order = np.lexsort((chunks, np.nan_to_num(before), -score, np.isnan(again), queries))
    return rows_at(hits, order)


def parted(
    hits: pl.DataFrame, keeps: np.ndarray, reason: str | pl.Series, into: np.ndarray | None = None
) -> Step:
    """The hits that are kept, and the others as dropped, for one reason or one each, and into a
    chunk.
    """
    if keeps.all():
        return unchanged(hits)
    rows = np.flatnonzero(~keeps)
    drops = rows_at(hits[:, ["query", "chunk_no"]], rows)
    reasons = [reason] * len(rows) if isinstance(reason, str) else reason.gather(rows)
    targets = [None] * len(rows) if into is None else into[rows]
    columns = [pl.Series("reason", reasons, pl.String), pl.Series("into", targets, pl.Int64)]
    return Step(rows_at(hits, np.flatnonzero(keeps)), drops.hstack(columns))


def unchanged(hits: pl.DataFrame) -> Step:
    """A step that drops nothing."""
    return Step(hits, nothing_dropped())


@functools.cache
def nothing_dropped() -> pl.DataFrame:
    """DROPPED without rows."""
    return pl.DataFrame(schema=DROPPED)


def groups(hits: pl.DataFrame, name: str) -> np.ndarray:
    """A number for each hit: the same for hits of one query that have the same number in a column."""
    queries, numbers = (
        hits.get_column(column).to_numpy().astype(np.int64) for column in ("query", name)
    )
    return np.unique(queries << 32 | numbers, return_inverse=True)[1]


def firsts(of_group: np.ndarray) -> np.ndarray:
    """For each hit the place of the first one that has the same number of `groups`."""
    return np.unique(of_group, return_index=True)[1][of_group]


def places(hits: pl.DataFrame) -> np.ndarray:
    """The place of each hit in the list of its query, from 1; queries ascend."""
    queries = hits.get_column("query").to_numpy()
    return (np.arange(1, len(queries) + 1) - np.searchsorted(queries, queries)).astype(np.int32)


def place() -> pl.Expr:
    """The same as an expression, which takes ten times as long."""
    return pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query")


def from_candidates(fused: pl.DataFrame) -> pl.DataFrame:
    """Candidates (`ranking.FUSED`) with the other columns of HITS, all null."""
    return fused.hstack(
        [null.new_from_index(0, len(fused)) for null in _no_more(tuple(fused.columns))]
    )


@functools.cache
def _no_more(columns: tuple[str, ...]) -> list[pl.Series]:
    """The other columns of HITS with one null each; made once, as each of a dozen costs more than
    its values.
    """
    return [pl.Series(name, [None], kind) for name, kind in HITS.items() if name not in columns]
