"""When the texts of the published version got how far, the bounds that a running system keeps to, and the report."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import polars as pl

from assets.protocols.lake import Lake
from assets.protocols.search import OperationsHistory, Publisher
from assets.stages.shown import described, warning
from transforms.operations import readiness as measures
from transforms.schemas.operations import READINESS
from transforms.settings.operations import OperationsSettings

GROUP = "operations"


def operations_report_asset() -> dg.AssetsDefinition:
    """The asset `operations_report`: plots and figures in its metadata; it stores nothing."""

    @dg.asset(
        group_name=GROUP,
        kinds={"markdown"},
        deps=["readiness"],
        description="Throughput per step, lag, reuse of vectors, quarantine by reason, size and live share, with plots.",
    )
    def operations_report(
        context: dg.AssetExecutionContext, operations_history: dg.ResourceParam[OperationsHistory]
    ) -> dg.MaterializeResult:
        from transforms.operations.plots import report

        figures = operations_history.figures(context.instance)
        text = report(figures)
        return dg.MaterializeResult(metadata={"report": dg.MetadataValue.md(text), "characters": len(text)})

    return operations_report


LAG_CHECK = "new_texts_are_searchable_in_time"
SLOW_CHECK = "the_slow_lane_keeps_up"
TABLE = "readiness"


def readiness_asset(settings: OperationsSettings) -> dg.AssetsDefinition:
    """The asset `readiness`: the table of that name in the published file, kept beside it.

    What a text's times were survives there when the file is lost. The checks warn when new texts came late, and
    hold nothing back.
    """
    kept = f"Keeps beside the published file what it says of its texts' times.\n\n{READINESS.comment}"

    @dg.asset(
        name=TABLE,
        group_name="publish",
        deps=["search_index"],
        **described(READINESS, measures.VERSION, "duckdb") | {"description": kept},
        check_specs=[
            dg.AssetCheckSpec(
                LAG_CHECK,
                asset=TABLE,
                description=f"Of the newest texts of each source, 95 % were searchable {settings.max_lag_minutes:g} "
                "minutes after a build first saw them.",
            ),
            dg.AssetCheckSpec(
                SLOW_CHECK,
                asset=TABLE,
                description=f"No text has waited for the slow lane for more than {settings.max_slow_lag_minutes:g} minutes.",
            ),
        ],
    )
    def readiness(
        context: dg.AssetExecutionContext,
        publisher: dg.ResourceParam[Publisher],
        lake: dg.ResourceParam[Lake],
    ) -> Iterator[dg.Output[Any] | dg.AssetCheckResult]:
        told = publisher.readiness()
        version = context.assets_def.code_versions_by_key[context.asset_key] or ""
        staged = lake.stage(TABLE, None, told.table, code_version=version, inputs={"index": told.version})
        found, waiting = measures.lags(told.table), measures.waits(told.table)
        facts: dict[str, Any] = {
            "lag_by_source": dg.MetadataValue.md(measures.markdown(found)),
            **_totals(found),
            "waiting": waiting,
        }
        yield dg.Output(staged, metadata={"dagster/row_count": staged.row_count, **facts})
        late = measures.late_sources(told.table, settings.max_lag_minutes)
        yield warning(TABLE, LAG_CHECK, not late, late_sources=late, max_lag_minutes=settings.max_lag_minutes)
        longest = max((w["longest_minutes"] for w in waiting.values()), default=0.0)
        yield warning(TABLE, SLOW_CHECK, longest <= settings.max_slow_lag_minutes, waiting=waiting)

    return readiness


def _totals(found: pl.DataFrame) -> dict[str, float]:
    """The figures that Dagster draws over time: the worst source's."""
    worst = found.select(pl.col("p50", "p95", "max").max()).row(0, named=True)
    return {f"lag_{name}_seconds": round(value or 0.0, 3) for name, value in worst.items()}
