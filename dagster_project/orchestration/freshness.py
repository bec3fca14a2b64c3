"""Whether the index shows what the sources hold: a check that each publish and each hour evaluates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.plan import Plan, make_plan

CHECK, ASSET = "shows_what_the_sources_hold", "search_index"


def freshness_check(settings: Settings) -> dg.AssetChecksDefinition:
    """The check of `search_index`: no change of a source waits longer than three times `operations.max_lag_minutes`."""

    @dg.asset_check(
        asset=ASSET,
        name=CHECK,
        description=f"No change of a source has waited for more than {settings.operations.fresh_hours:g} hours.",
    )
    def check() -> dg.AssetCheckResult:
        plan = make_plan(settings, make_sources(settings), make_lake(settings))
        return dg.AssetCheckResult(**_outcome(settings, plan))

    return check


def report_freshness(settings: Settings, instance: dg.DagsterInstance, plan: Plan) -> None:
    """Report the check's outcome for a look at the sources, where nothing is published that would evaluate it."""
    found = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(ASSET), check_name=CHECK, **_outcome(settings, plan)
    )
    instance.report_runless_asset_event(found)


def _outcome(settings: Settings, plan: Plan) -> dict[str, Any]:
    """The outcome of the check: how many hours the oldest waiting change has waited, and the figures that are shown."""
    now, times = datetime.now(UTC), make_seen_partitions(settings).times()
    waiting = {*plan.stale, *plan.vanished}
    hours = max(((now - times[p]).total_seconds() / 3600 for p in waiting if p in times), default=0.0)
    figures = {
        "waiting_partitions": len(waiting),
        "longest_hours": round(hours, 2),
        "unreadable_sources": len(plan.broken),
    }
    return {
        "passed": hours <= settings.operations.fresh_hours,
        "severity": dg.AssetCheckSeverity.WARN,
        "metadata": {name: dg.MetadataValue.float(float(value)) for name, value in figures.items()},
    }
