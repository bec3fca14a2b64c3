"""The freshness of the index, against all sources and each: checks that each publish and each hour
evaluate.
"""

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime

import dagster as dg

from assets.sources import source_key
from assets.stages.shown import check_key, of_selected, warning
from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.plan import Plan, make_plan

CHECK, ASSET = "shows_what_the_sources_hold", "search_index"
OF_SOURCE = "is_shown_by_the_index"


def freshness_checks(settings: Settings) -> dg.AssetChecksDefinition:
    """The checks of `search_index` and of each source: no change waits for more than
    `operations.fresh_hours`.
    """
    limit = f"{settings.operations.fresh_hours:g} hours"
    of_source = f"No change of this source has waited for more than {limit}, and it can be read."
    specs = [
        dg.AssetCheckSpec(
            CHECK, asset=ASSET, description=f"No change waited for more than {limit}."
        ),
        *(
            dg.AssetCheckSpec(OF_SOURCE, asset=source_key(s.name), description=of_source)
            for s in settings.sources
        ),
    ]

    @dg.multi_asset_check(name="freshness", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        plan = make_plan(settings, make_sources(settings), make_lake(settings))
        report_freshness(settings, context.instance, plan, but=context.selected_asset_check_keys)
        yield from of_selected(context, _results(settings, plan))

    return check


def report_freshness(
    settings: Settings,
    instance: dg.DagsterInstance,
    plan: Plan,
    but: Set[dg.AssetCheckKey] = frozenset(),
) -> None:
    """Report the outcomes of the checks for a look at the sources, `but` for those that a run
    evaluates.

    Those that are as the last ones are left out: Dagster deletes no outcome with its run.
    """
    results = {check_key(result): result for result in _results(settings, plan)}
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(results))
    for key in results.keys() - but:
        last, now = latest[key].evaluation if key in latest else None, results[key]
        # A run that failed before a check leaves the plan of its outcome there.
        is_outcome = isinstance(last, dg.AssetCheckEvaluation)
        if not is_outcome or (last.passed, last.metadata) != (now.passed, now.metadata):
            facts = {"passed": now.passed, "severity": now.severity, "metadata": now.metadata}
            evaluation = dg.AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=key.name, **facts
            )
            instance.report_runless_asset_event(evaluation)


def _results(settings: Settings, plan: Plan) -> Iterator[dg.AssetCheckResult]:
    """The outcome of each check: how many hours the oldest waiting change has waited, and the
    figures that are shown.
    """
    now, times = datetime.now(UTC), make_seen_partitions(settings).times()
    waits = {
        p: (now - times[p]).total_seconds() / 3600 if p in times else 0.0
        for p in (*plan.stale, *plan.vanished)
    }
    yield _result(settings, dg.AssetKey(ASSET), CHECK, waits, unreadable=len(plan.broken))
    for source in settings.sources:
        own = {p: hours for p, hours in waits.items() if p.startswith(f"{source.name}/")}
        unreadable = int(source.name in plan.broken)
        yield _result(settings, source_key(source.name), OF_SOURCE, own, unreadable=unreadable)


def _result(
    settings: Settings,
    asset: dg.AssetKey,
    check: str,
    waits: Mapping[str, float],
    *,
    unreadable: int,
) -> dg.AssetCheckResult:
    """The outcome of one check, by the hours that partitions wait."""
    hours = max(waits.values(), default=0.0)
    figures = {"waiting_partitions": len(waits), "longest_hours": round(hours, 2)}
    figures["unreadable_sources"] = unreadable
    is_fresh = hours <= settings.operations.fresh_hours and not (unreadable and check == OF_SOURCE)
    shown = {name: dg.MetadataValue.float(float(value)) for name, value in figures.items()}
    return warning(asset, check, is_fresh, **shown)
