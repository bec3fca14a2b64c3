"""Lags of texts, from first seen to searchable: per source, and those beyond a bound."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

VERSION = "2"


def lags(readiness: pa.Table) -> pl.DataFrame:
    """One row per source, sorted: texts, searchable, and of their lags in seconds p50, p95 and max.

    `readiness` is `schemas.READINESS` or rows of it. The percentiles are interpolated, as `readiness_by_source` does.
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


def newest_rows(readiness: pa.Table) -> pa.Table:
    """The rows that the last version with anything new brought, without those of which something waits."""
    rows = pl.DataFrame(readiness).filter(pl.col("waits_for").is_null())
    return rows.filter(pl.col("published_at") == pl.col("published_at").max()).to_arrow()


def late_sources(readiness: pa.Table, max_lag_minutes: float) -> dict[str, float]:
    """Of the newest texts, the sources whose 95th percentile is beyond the bound, with it in minutes."""
    late = lags(newest_rows(readiness)).filter(pl.col("p95") > max_lag_minutes * 60)
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
    lines = ["| source | texts | searchable | lag p50 s | p95 s | max s |", "|---|---:|---:|---:|---:|---:|"]
    for source, texts, searchable, *lag in lag_table.iter_rows():
        lines.append(
            f"| {source} | {texts:,} | {searchable:,} | " + " | ".join(f"{s:,.1f}" for s in lag) + " |"
        )
    return "\n".join(lines)
