"""From candidates to hits: the stages in their order, each a table of hits to a table of hits and of what it dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import polars as pl

from transforms.retrieval import aggregation, collapse, diversity, elbow, gates, reranking
from transforms.retrieval.hits import (
    DROPPED,
    HITS,
    Context,
    Report,
    Step,
    best_first,
    from_candidates,
    parted,
    place,
    unchanged,
)
from transforms.settings.search import SearchSettings

STAGES = (
    "lexical", "vector", "fused", "gated", "threads", "strong", "documents", "pool", "sources", "reranked", "elbow",
    "aggregated", "unique", "diverse", "one_per_thread", "final",
)  # fmt: skip
"""The names of the lists of a search. The first three are candidates: of both kinds, and all of them by fused score.
`final` is what the search returns. A new stage adds its name, and evaluations measure its list with the others."""


def in_order(made: Collection[str]) -> list[str]:
    """The names of the lists that a search made, in its order.

    The order of STAGES, but for a search that scales scores by source: it gathers sections before the elbow.
    """
    order = [name for name in STAGES if name in made]
    if {"sources", "aggregated", "elbow"} <= set(made):
        order.remove("aggregated")
        order.insert(order.index("elbow"), "aggregated")
    return order


RANKED: dict[str, pl.DataType | type[pl.DataType]] = {
    "query": pl.Int32,
    "rank": pl.Int32,
    "chunk_no": pl.Int64,
    **{
        name: HITS[name] for name in ("score", "fused_score", "thread_score", "lexical_score", "vector_score")
    },
    "support": pl.Float64,
    **{name: HITS[name] for name in ("lexical_rank", "vector_rank", "stands_for", *reranking.RERANKED)},
}
"""Columns of what a search returns, by query and rank. `support` is the share of the words of the query that stand in
the chunk, rare ones weighing more, 0 to 1."""


class Stage(NamedTuple):
    """One step: its name in STAGES and what it does."""

    name: str
    apply: Callable[[pl.DataFrame, Context, SearchSettings], Step]


def stages(settings: SearchSettings) -> list[Stage]:
    """The stages that the settings switch on, in the order in which they run.

    Of each document the best hits are taken before anything that looks at a bounded number of hits;
    behind it where parts are gathered to sections, which needs them all.
    """
    gathers = settings.aggregation
    documents = Stage("documents", collapse.best_of_documents)
    gather = Stage("aggregated", aggregation.in_sections)
    ordered = [
        (settings.similarity_threshold is not None, Stage("gated", gates.similar_enough)),
        (settings.thread_weight > 0, Stage("threads", with_thread_share)),
        (settings.weak_share > 0, Stage("strong", gates.strong_enough)),
        (gathers == "off", documents),
        (True, Stage("pool", pooled)),
        (gathers == "before_elbow", Stage("sources", by_source)),
        (settings.rerank != "off", Stage("reranked", reranked)),
        (gathers == "before_elbow", gather),
        (settings.elbow, Stage("elbow", elbow.before_elbow)),
        (gathers == "after_elbow", gather),
        (gathers != "off", documents),
        (settings.collapse_duplicates, Stage("unique", collapse.unlike)),
        (settings.diversity > 0, Stage("diverse", diversity.diversified)),
        (settings.collapse_threads, Stage("one_per_thread", collapse.best_of_threads)),
        (True, Stage("final", limited)),
    ]
    return [stage for wanted, stage in ordered if wanted]


class Processed(NamedTuple):
    """HITS after all stages, and what they stand for, see `constituents`."""

    hits: pl.DataFrame
    constituents: pl.DataFrame


def processed(
    fused: pl.DataFrame, context: Context, settings: SearchSettings, report: Report | None = None
) -> Processed:
    """What all stages make of candidates (`ranking.FUSED`) of any number of queries.

    `report` is told the list of each of STAGES that is made.
    """
    hits = from_candidates(fused)
    if report is not None:
        nothing = pl.DataFrame(schema=DROPPED)
        for name in ("lexical", "vector"):
            found = hits.drop_nulls(f"{name}_rank").sort("query", f"{name}_rank")
            report(name, found.select("query", "chunk_no", score=f"{name}_score"), nothing)
        report("fused", hits, nothing)
    dropped = []
    for stage in stages(settings):
        hits, gone = stage.apply(hits, context, settings)
        if stage.name != "documents":
            dropped.append(gone)
        if report is not None:
            report(stage.name, hits, gone)
    return Processed(hits, constituents(hits, dropped))


def constituents(hits: pl.DataFrame, dropped: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """What hits stand for: query, into (the chunk of a hit), chunk_no and reason, in this order.

    `dropped` is what each stage dropped, in their order. What went into a hit that later went into another is
    of that one. That a document has more such chunks is no news and left out.
    """
    held = pl.DataFrame(schema=DROPPED)
    for gone in dropped:
        moved = gone.drop_nulls("into")
        if moved.is_empty():
            continue
        onward = moved.select("query", into="chunk_no", _further="into")
        held = held.join(onward, on=["query", "into"], how="left", maintain_order="left").with_columns(
            into=pl.coalesce("_further", "into")
        )
        held = pl.concat([held.drop("_further"), moved])
    if held.is_empty():
        return held
    shown = hits.select("query", into="chunk_no")
    return held.join(shown, on=["query", "into"], how="semi").sort("query", "into", "chunk_no")


def with_thread_share(hits: pl.DataFrame, context: Context, settings: SearchSettings) -> Step:
    """Hits with `thread_weight` times the best score of their thread added to their own."""
    share = settings.thread_weight * pl.col("score").max().over("query", "thread")
    return unchanged(best_first(hits.with_columns(thread_score=share, score=pl.col("score") + share)))


def pooled(hits: pl.DataFrame, context: Context, settings: SearchSettings) -> Step:
    """The first `pool` hits of each query."""
    pool = max(settings.pool, settings.limit)
    return parted(hits, place() <= pool, pl.format("behind the first {}", pl.lit(pool)))


def by_source(hits: pl.DataFrame, context: Context, settings: SearchSettings) -> Step:
    """Hits with scores divided by the best one of their source, where that is above 0."""
    sources = context.sources(hits.get_column("chunk_no").unique())
    known = hits.join(sources, on="chunk_no", how="left", maintain_order="left")
    best = pl.col("score").max().over("query", "source")
    scaled = known.with_columns(score=pl.when(best > 0).then(pl.col("score") / best).otherwise("score"))
    return unchanged(best_first(scaled.drop("source")))


def reranked(hits: pl.DataFrame, context: Context, settings: SearchSettings) -> Step:
    """Hits in the order of a reranker, `score` made one scale of its scores and those of the hits behind."""
    again = context.reranked(hits.with_columns(rank=place()), settings)
    return unchanged(reranking.on_one_scale(again).select(hits.columns))


def limited(hits: pl.DataFrame, context: Context, settings: SearchSettings) -> Step:
    """The first `limit` hits of each query."""
    return parted(hits, place() <= settings.limit, pl.format("behind the first {}", pl.lit(settings.limit)))
