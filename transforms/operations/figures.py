"""The state of a running system: figures of its last runs and of the published version, and the
lags of texts.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from transforms.text.visible import table_text

STAGE_RATES = {"stage": pl.String, "rows": pl.Int64, "seconds": pl.Float64}
"""Columns of `Figures.stages`: a step of the runs, the rows it wrote in all its tables, its
seconds.
"""
HISTORY: dict[str, pl.DataType | type[pl.DataType]] = {
    "at": pl.Datetime("us", "UTC"),
    "figure": pl.String,
    "value": pl.Float64,
}
"""Columns of `Figures.history`: one figure of an asset as one materialization gave it."""
QUARANTINE, MONTHS, BLOCKS, SIZES = (
    "Quarantine by reason",
    "Mails by month",
    "Blocks of mail by kind",
    "Chunks by characters, up to",
)
"""Titles of the counts of the published tables."""

LAGS = ("lag_p50_seconds", "lag_p95_seconds", "lag_max_seconds")
REUSE, INDEX_BYTES, LIVE_SHARE = "reuse_ratio", "index_bytes", "live_share"


@dataclass(frozen=True)
class Figures:
    """The figures of the report; `counts` (name, rows) of published rows by title, `facts` named
    values of now, in order.
    """

    stages: pl.DataFrame
    history: pl.DataFrame
    counts: Mapping[str, pl.DataFrame]
    facts: Mapping[str, str]


def throughput(stages: pl.DataFrame) -> pl.DataFrame:
    """Columns stage, rows, seconds, rate: summed over the runs, the stages that took longest first."""
    summed = stages.group_by("stage").agg(pl.col("rows").sum(), pl.col("seconds").sum())
    rate = pl.col("rows") / pl.max_horizontal("seconds", pl.lit(1e-9))
    return summed.with_columns(rate=rate).sort("seconds", "stage", descending=[True, False])


def figures_report(figures: Figures, plots: bytes | None) -> str:
    """Markdown: the facts, the plots (a PNG, None if nothing draws) inline, and the numbers behind
    the bars.
    """
    picture = f"data:image/png;base64,{base64.b64encode(plots).decode()}" if plots else ""
    sections = [
        table_text(("fact", "value"), list(figures.facts.items())),
        f"![Throughput, lag, reuse, size, and the published index]({picture})"
        if picture
        else "`pip install 'weft[plots]'` adds plots to this report.",
        "### Rows per second, by step of the last runs",
        table_text(
            ("step", "rows", "seconds", "rows/s"),
            [
                (s, f"{n:,}", f"{t:,.2f}", f"{r:,.0f}")
                for s, n, t, r in throughput(figures.stages).iter_rows()
            ],
        ),
        f"### {QUARANTINE}",
        table_text(
            ("reason", "rows"),
            [(reason, f"{n:,}") for reason, n in figures.counts[QUARANTINE].iter_rows()],
        ),
    ]
    return "\n\n".join(sections) + "\n"


def lags(readiness: pa.Table) -> pl.DataFrame:
    """One row per source, sorted: texts, searchable, and of their lags in seconds p50, p95 and max.

    `readiness` is `schemas.READINESS` or rows of it. The percentiles are interpolated, as
    `readiness_by_source` does.
    """
    rows = pl.DataFrame(readiness.select(["source", "is_searchable", "lag_seconds"]))
    lag = pl.col("lag_seconds")
    return (
        rows.group_by("source")
        .agg(
            texts=pl.len().cast(pl.Int64),
            searchable=pl.col("is_searchable").sum().cast(pl.Int64),
            p50=lag.quantile(0.5, "linear"),
            p95=lag.quantile(0.95, "linear"),
            max=lag.max(),
        )
        .sort("source")
    )


def late_sources(readiness: pa.Table, max_lag_minutes: float) -> dict[str, float]:
    """The sources whose newest texts have a 95th percentile beyond the bound, with it in minutes."""
    rows = pl.DataFrame(readiness).filter(pl.col("waits_for").is_null())
    newest = rows.filter(pl.col("published_at") == pl.col("published_at").max()).to_arrow()
    late = lags(newest).filter(pl.col("p95") > max_lag_minutes * 60)
    return {source: round(p95 / 60, 1) for source, p95 in late.select("source", "p95").iter_rows()}


def waits(readiness: pa.Table) -> dict[str, dict[str, float]]:
    """For each reason to wait: the number of waiting texts, and the longest wait in minutes."""
    rows = pl.DataFrame(readiness.select(["waits_for", "lag_seconds"])).drop_nulls("waits_for")
    groups = rows.group_by("waits_for").agg(pl.len(), pl.col("lag_seconds").max()).sort("waits_for")
    return {
        reason: {"texts": count, "longest_minutes": round(seconds / 60, 1)}
        for reason, count, seconds in groups.iter_rows()
    }


def markdown(lag_table: pl.DataFrame) -> str:
    """`lags` as a Markdown table, times in seconds."""
    lines = [
        "| source | texts | searchable | lag p50 s | p95 s | max s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for source, texts, searchable, *lag in lag_table.iter_rows():
        lines.append(
            f"| {source} | {texts:,} | {searchable:,} | "
            + " | ".join(f"{s:,.1f}" for s in lag)
            + " |"
        )
    return "\n".join(lines)
