"""The bounds that a running system keeps to, and its report."""

from collections.abc import Iterator

import dagster as dg

from assets.protocols.search import OperationsHistory
from assets.readiness import TABLE
from assets.stages.shown import of_selected, warning
from assets.stages.stage import Tables
from transforms.operations import figures as measures
from transforms.operations.figures import figures_report
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
        figures = operations_history.figures(context.instance)
        try:
            from transforms.operations.plots import plots
        except ImportError:
            text = figures_report(figures, None)
        else:
            text = figures_report(figures, plots(figures))
        return dg.MaterializeResult(
            metadata={"report": dg.MetadataValue.md(text), "characters": len(text)}
        )

    return operations_report


LAG_CHECK = "new_texts_are_searchable_in_time"
SLOW_CHECK = "the_slow_lane_keeps_up"


def readiness_checks(settings: OperationsSettings) -> dg.AssetChecksDefinition:
    """The checks of `readiness`, which warn when new texts came late, and hold nothing back."""
    rules = {
        LAG_CHECK: f"95 % of the newest texts of each source were searchable {settings.max_lag_minutes:g} minutes after "
        "a build first saw them.",
        SLOW_CHECK: f"No text has waited for the slow lane for more than {settings.max_slow_lag_minutes:g} minutes.",
    }

    @dg.multi_asset_check(
        name="readiness_checks",
        specs=[
            dg.AssetCheckSpec(name, asset=TABLE, description=rule) for name, rule in rules.items()
        ],
        can_subset=True,
    )
    def check(
        context: dg.AssetCheckExecutionContext, io_manager: dg.ResourceParam[Tables]
    ) -> Iterator[dg.AssetCheckResult]:
        table = io_manager.over_all(TABLE, context.instance).to_pyarrow()
        late, waiting = (
            measures.late_sources(table, settings.max_lag_minutes),
            measures.waits(table),
        )
        longest = max((w["longest_minutes"] for w in waiting.values()), default=0.0)
        limit = settings.max_lag_minutes
        results = [
            warning(TABLE, LAG_CHECK, not late, late_sources=late, max_lag_minutes=limit),
            warning(TABLE, SLOW_CHECK, longest <= settings.max_slow_lag_minutes, waiting=waiting),
        ]
        yield from of_selected(context, results)

    return check
