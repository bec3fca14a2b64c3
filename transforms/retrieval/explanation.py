"""The effect of every stage of a search on every hit: its place before and after, its score, why it
went.
"""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from transforms.retrieval.hits import place

STEPS: dict[str, pl.DataType | type[pl.DataType]] = {
    "chunk_no": pl.Int64,
    "rank_before": pl.Int32,
    "rank": pl.Int32,
    "score_before": pl.Float64,
    "score": pl.Float64,
    "reason": pl.String,
    "into": pl.Int64,
}
"""Columns of the effect of a stage: hits that stay by their rank, then those it dropped by their
rank before, with the reason and the chunk of the hit that replaces them. A new hit has null before,
a dropped one null after.
"""

INDEPENDENT = ("lexical", "vector", "fused")
"""Stages whose list is made of the index and not of the list before."""


class StageTable(NamedTuple):
    """The name of a stage, its time in seconds, and STEPS."""

    stage: str
    seconds: float
    steps: pl.DataFrame


def stage_steps(
    before: pl.DataFrame | None, hits: pl.DataFrame, dropped: pl.DataFrame
) -> pl.DataFrame:
    """STEPS of one query, from the hits before a stage (None if it makes them) and those that
    `hits.Report` gets.
    """
    after = hits.select("chunk_no", "score", rank=place())
    if before is None:
        steps = after.with_columns(
            pl.lit(None, STEPS[n]).alias(n) for n in STEPS if n not in after.columns
        )
        return steps.select(*STEPS)
    first = before.select("chunk_no", score_before="score", rank_before=place())
    drops = dropped.select("chunk_no", "reason", "into")
    joined = first.join(after, on="chunk_no", how="left").join(drops, on="chunk_no", how="left")
    return joined.select(*STEPS).sort(pl.col("rank").is_null(), "rank", "rank_before")


class Moment(NamedTuple):
    """The fate of some chunks in one stage: the place of the best, or why all of them went."""

    stage: str
    chunk_no: int
    rank: int | None
    score: float | None
    reason: str | None
    into: int | None


def fate(tables: Sequence[StageTable], chunks: Sequence[int]) -> list[Moment]:
    """The fate of these chunks, stage by stage, up to the one that dropped the last of them.

    Empty where none is a candidate. A stage that lost no chunk but the worse ones tells of the
    best.
    """
    moments = []
    for table in tables:
        steps = table.steps.filter(pl.col("chunk_no").is_in(list(chunks)))
        if steps.is_empty():
            continue
        chunk, rank, score, before, reason, into = steps.select(
            "chunk_no", "rank", "score", "score_before", "reason", "into"
        ).row(0)
        moments.append(
            Moment(table.stage, chunk, rank, before if rank is None else score, reason, into)
        )
    return moments
