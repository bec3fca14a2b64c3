"""From candidates to hits: the stages in their order, each a table of hits to a table of hits and
one of dropped hits.

Stages read nothing but their table. The first of them (`pooling`) need no facts; whoever runs the
others (`scaling`, `finishing`) puts the facts that `facts` names beside the hits, once, and reranks
between the two.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval import aggregation, collapse, cutoffs, diversity, reranking
from transforms.retrieval.hits import (
    DROPPED,
    HITS,
    REVISION,
    Report,
    Step,
    best_first,
    from_candidates,
    groups,
    nothing_dropped,
    parted,
    places,
    unchanged,
)
from transforms.retrieval.small_tables import rows_at, with_values
from transforms.settings.search import SearchSettings

_CHUNK_BITS = 32
"""Bits that the number of a chunk takes in a key with its query."""
STAGES = (
    "lexical",
    "vector",
    "fused",
    "gated",
    "threads",
    "documents",
    "pool",
    "latest",
    "sources",
    "lifted",
    "reranked",
    "preferred",
    "units",
    "elbow",
    "aggregated",
    "diverse",
    "one_per_thread",
    "final",
)
"""The names of the lists of a search. The first three are candidates: of both kinds, and all of
them by fused score. `final` is the result of the search. A new stage adds its name, and evaluations
measure its list with the others.
"""


def in_order(names: Collection[str]) -> list[str]:
    """The names of the lists that a search made, in its order.

    The order of STAGES, but for a search that scales scores by source: it gathers sections before
    the elbow.
    """
    order = [name for name in STAGES if name in names]
    if {"sources", "aggregated", "elbow"} <= set(names):
        order.remove("aggregated")
        order.insert(order.index("elbow"), "aggregated")
    return order


RANKED: dict[str, pl.DataType | type[pl.DataType]] = {
    "query": pl.Int32,
    "rank": pl.Int32,
    "chunk_no": pl.Int64,
    **{
        name: HITS[name]
        for name in ("score", "fused_score", "thread_score", "lexical_score", "vector_score")
    },
    "support": pl.Float64,
    "evidence": pl.Float64,
    **{
        name: HITS[name]
        for name in ("lexical_rank", "vector_rank", "stands_for", *reranking.RERANKED)
    },
}
"""Columns of the result of a search, by query and rank. `support` is the share of the words of the
query that the chunk holds, rare ones weighing more, 0 to 1; labels go by `evidence`
(`labels.evidence`).
"""


class SearchStage(NamedTuple):
    """One step: its name in STAGES, its function, and the facts (`hits.FACTS`) that it reads."""

    name: str
    apply: Callable[[pl.DataFrame, SearchSettings], Step]
    facts: tuple[str, ...] = ()


class StageResult(NamedTuple):
    """The hits of a search behind some of its stages, with their facts, and the hits that each of
    these dropped.
    """

    hits: pl.DataFrame
    dropped: tuple[pl.DataFrame, ...] = ()


_DOCUMENTS = SearchStage("documents", collapse.best_of_documents)
_AGGREGATED = SearchStage("aggregated", aggregation.in_sections, ("path",))


def pooling(settings: SearchSettings) -> list[SearchStage]:
    """The stages from all candidates to a bounded number of them, which read no facts.

    They take the best hits of each document before a stage that looks at a bounded number of hits;
    behind it if a stage gathers parts to sections, which needs them all.
    """
    least = settings.similarity_threshold
    return _switched_on(
        (
            least is not None,
            SearchStage(
                "gated", lambda hits, _: cutoffs.near_enough(hits, "vector_score", least or 0)
            ),
        ),
        (settings.thread_weight > 0, SearchStage("threads", with_thread_share)),
        (settings.aggregation == "off", _DOCUMENTS),
        (True, SearchStage("pool", pooled)),
    )


def scaling(settings: SearchSettings) -> list[SearchStage]:
    """The stages between the pool and the reranker."""
    return _switched_on(
        (settings.latest_first, SearchStage("latest", collapse.latest_first, tuple(REVISION))),
        (settings.aggregation == "before_elbow", SearchStage("sources", by_source, ("source",))),
    )


def finishing(settings: SearchSettings) -> list[SearchStage]:
    """The stages behind the reranker."""
    gathers = settings.aggregation
    return _switched_on(
        (gathers == "before_elbow", _AGGREGATED),
        (settings.cutoff_ratio is not None, SearchStage("elbow", cutoffs.before_elbow)),
        (gathers == "after_elbow", _AGGREGATED),
        (gathers != "off", _DOCUMENTS),
        (settings.diversity > 0, SearchStage("diverse", diversity.diversified, ("vector",))),
        (settings.collapse_threads, SearchStage("one_per_thread", collapse.best_of_threads)),
        (True, SearchStage("final", limited)),
    )


def _switched_on(*stages: tuple[bool, SearchStage]) -> list[SearchStage]:
    return [stage for is_on, stage in stages if is_on]


def facts(settings: SearchSettings) -> tuple[str, ...]:
    """The names of the facts that the stages behind the pool read."""
    stages = (*scaling(settings), *finishing(settings))
    return tuple(dict.fromkeys(name for stage in stages for name in stage.facts))


def started(fused: pl.DataFrame, report: Report | None = None) -> StageResult:
    """Candidates (`ranking.FUSED`) of any number of queries as HITS; `report` gets the first three
    of STAGES.
    """
    hits = from_candidates(fused)
    if report is not None:
        nothing = nothing_dropped()
        for name in ("lexical", "vector"):
            listed = hits.drop_nulls(f"{name}_rank").sort("query", f"{name}_rank")
            report(name, listed.select("query", "chunk_no", score=f"{name}_score"), nothing)
        report("fused", hits, nothing)
    return StageResult(hits)


def through(
    progress: StageResult,
    stages: Sequence[SearchStage],
    settings: SearchSettings,
    report: Report | None = None,
) -> StageResult:
    """The progress behind further stages; `report` gets the list of each of them."""
    hits, dropped = progress.hits, list(progress.dropped)
    for stage in stages:
        hits, drops = stage.apply(hits, settings)
        if stage.name != "documents":
            dropped.append(drops)
        if report is not None:
            report(stage.name, hits, drops)
    return StageResult(hits, tuple(dropped))


def merged(hits: pl.DataFrame, dropped: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The chunks that hits replace: query, into (the chunk of a hit), chunk_no and reason, in this
    order.

    `dropped` has the rows that each stage dropped, in their order. A chunk that went into a hit
    that later went into another belongs to that one. Rows that only say that a document has more
    such chunks are left out.
    """
    rows: list[tuple[int, int, str, int]] = []
    for drops in dropped:
        has_none = drops.get_column("into").null_count() == len(drops)
        further = [] if has_none else [row for row in _rows(drops) if row[3] is not None]
        onward = {(query, chunk): into for query, chunk, _, into in further}
        rows = [(q, chunk, reason, onward.get((q, into), into)) for q, chunk, reason, into in rows]
        rows += further
    shown = {
        *zip(*(hits.get_column(name).to_list() for name in ("query", "chunk_no")), strict=True)
    }
    rows = [row for row in rows if (row[0], row[3]) in shown]
    if not rows:
        return nothing_dropped()
    rows.sort(key=itemgetter(0, 3, 1))
    columns = dict(zip(DROPPED, zip(*rows, strict=True), strict=True))
    return pl.DataFrame(columns, schema=DROPPED)


def _rows(dropped: pl.DataFrame) -> list[tuple[int, int, str, int]]:
    """The rows of DROPPED, in the order of its columns."""
    return list(zip(*(dropped.get_column(name).to_list() for name in DROPPED), strict=True))


def into_hits(dropped: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Those rows of `merged` that went into one of these hits, in their order."""
    if dropped.is_empty():
        return dropped
    of_hits, of_rows = (
        table.get_column("query").to_numpy().astype(np.int64) << _CHUNK_BITS
        | table.get_column(chunk).to_numpy()
        for table, chunk in ((hits, "chunk_no"), (dropped, "into"))
    )
    return rows_at(dropped, np.flatnonzero(np.isin(of_rows, of_hits)))


def with_thread_share(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits with their share (`thread_score`) of the best score of their thread added to their own."""
    threads, score = groups(hits, "thread"), hits.get_column("score").to_numpy()
    best = np.full(len(hits), -np.inf)
    np.maximum.at(best, threads, score)
    share = hits.get_column("thread_score").to_numpy() * best[threads]
    return unchanged(best_first(with_values(hits, thread_score=share, score=score + share)))


def pooled(
    hits: pl.DataFrame, settings: SearchSettings, preferred: np.ndarray | None = None
) -> Step:
    """The first `pool` hits of each query, and those that are `preferred` whatever their place."""
    pool = max(settings.pool, settings.limit)
    first = places(hits) <= pool
    keeps = first if preferred is None else first | preferred
    return parted(hits, keeps, f"behind the first {pool}")


def by_source(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the fact `source`, with scores divided by the best one of their source, where that
    is above 0.
    """
    best = pl.col("score").max().over("query", "source")
    scaled = hits.with_columns(
        score=pl.when(best > 0).then(pl.col("score") / best).otherwise("score")
    )
    return unchanged(best_first(scaled))


def limited(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The first `limit` hits of each query."""
    return parted(hits, places(hits) <= settings.limit, f"behind the first {settings.limit}")
