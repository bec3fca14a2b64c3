"""How a running system does: figures of its last runs and of what is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

STAGES = {"stage": pl.String, "rows": pl.Int64, "seconds": pl.Float64}
"""Columns of `Figures.stages`: a step of the runs, the rows it wrote in all its tables, what it took."""
HISTORY: dict[str, pl.DataType | type[pl.DataType]] = {
    "at": pl.Datetime("us", "UTC"),
    "figure": pl.String,
    "value": pl.Float64,
}
"""Columns of `Figures.history`: one figure of an asset as one materialization gave it."""
COUNTS = {"name": pl.String, "rows": pl.Int64}
"""Columns of a table of `Figures.counts`: what is counted, and how many there are of it."""
QUARANTINE, MONTHS, BLOCKS, SIZES = (
    "Quarantine by reason",
    "Mails by month",
    "Blocks of mail by kind",
    "Chunks by characters, up to",
)
"""What the published tables are counted by."""

LAGS = ("lag_p50_seconds", "lag_p95_seconds", "lag_max_seconds")
REUSE, INDEX_BYTES, LIVE_SHARE = "reuse_ratio", "index_bytes", "live_share"


@dataclass(frozen=True)
class Figures:
    """What the report shows; `counts` of published rows by their title, `facts` are named values of now, in order."""

    stages: pl.DataFrame
    history: pl.DataFrame
    counts: Mapping[str, pl.DataFrame]
    facts: Mapping[str, str]


def throughput(stages: pl.DataFrame) -> pl.DataFrame:
    """Columns stage, rows, seconds, rate: summed over the runs, the stages that took longest first."""
    summed = stages.group_by("stage").agg(pl.col("rows").sum(), pl.col("seconds").sum())
    rate = pl.col("rows") / pl.max_horizontal("seconds", pl.lit(1e-9))
    return summed.with_columns(rate=rate).sort("seconds", "stage", descending=[True, False])
