"""Which runs the schedule and the sensors ask for, of what changed."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from assets.partitions import CHUNKS_OF, CONTEXT, GRAPH, SLOW
from dagster_project.composition import make_lake, make_sources, require_served_models
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_interrupted, alert_sources
from dagster_project.orchestration.asset_graph import around_graph
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.freshness import report_freshness
from dagster_project.orchestration.names import LATER, SCOPE_TAG, WHOLE
from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.plan import (
    Plan,
    reading_tables,
    stale_context,
    stale_graph,
    stale_slow,
)
from dagster_project.orchestration.retention import prune_runs
from dagster_project.orchestration.runs import close_dead_runs, partitions_of, refresh_of, under_way
from dagster_project.orchestration.work import Work
from dagster_project.resources.system.dagster_internals import partitions_of_backfills
from transforms.errors import SourceError

PARTITIONS = {SCOPE_TAG: "partition"}
_PRUNED_AT_ONCE = 20
"""Runs that one look deletes at most: it has a minute."""
Asked = Sequence[dg.RunRequest] | dg.SkipReason


def refresh_requests(settings: Settings, instance: dg.DagsterInstance, refresh: str) -> Asked:
    """Runs of the stale partitions; of what is over the whole lake only where no partition is stale and the index is.

    Dagster knows the partitions of now afterwards. A source that cannot be read gets a run, which fails with the
    remedy, and keeps no other from its own.
    """
    alert_interrupted(settings.alerts, settings.root, close_dead_runs(instance, settings.root))
    prune_runs(instance, settings.operations.keep_runs_days, _PRUNED_AT_ONCE)
    taken = partitions_of(instance, under_way(instance)) | in_backfills(settings, instance)
    try:
        plan = planned(settings, instance, taken)
    except SourceError:
        if works := _of_all(settings, instance):
            alert_sources(settings.alerts, settings.root, [source.name for source in settings.sources])
            return [work.request(refresh, PARTITIONS) for work in works]
        raise
    report_freshness(settings, instance, plan)
    alert_sources(settings.alerts, settings.root, plan.broken)
    works = partition_runs(instance, plan.stale) + _of_broken(settings, plan, taken)
    if works:
        require_served_models(settings)
        return [work.request(refresh, PARTITIONS) for work in works]
    slow = set(SLOW.tables)
    if going := [
        run
        for run in under_way(instance)
        if "dagster/backfill" not in run.tags
        and not {key.path[-1] for key in run.asset_selection or ()} & slow
    ]:
        return dg.SkipReason(f"run {going[0].run_id[:8]} and what follows it is under way")
    if plan.publish:
        require_served_models(settings)
        return [_whole(settings).request(refresh, {SCOPE_TAG: WHOLE})]
    return later_requests(settings, instance, refresh)


def embedded_requests(settings: Settings, instance: dg.DagsterInstance, run: dg.DagsterRun) -> Asked:
    """What follows a run that made vectors: all over the whole lake if it left some of that missing, else the graph.

    Of the graph, runs of the stale partitions; of what is made of them only where none is stale.
    """
    lake, refresh = make_lake(settings), refresh_of(run)
    _, after = around_graph(settings)
    left = set(_whole(settings).keys) - set(run.asset_selection or ())
    if any(lake.footer(key.path[-1]) is None for key in left if key.path[-1] in lake.tables):
        return [_whole(settings).request(refresh, {SCOPE_TAG: WHOLE})]
    if not settings.graph.enabled:
        return dg.SkipReason("what follows is asked for by the conditions of the assets")
    if _chunks_changed_since(instance, "embeddings"):
        return dg.SkipReason("partitions were made since: the conditions of the assets ask for vectors first")
    stale = stale_graph(settings, make_sources(settings).discover(), lake)
    if works := partition_runs(instance, stale, [GRAPH]):
        return [work.request(refresh, PARTITIONS) for work in works]
    return [Work(tuple(after)).request(refresh, {SCOPE_TAG: WHOLE})]


def _chunks_changed_since(instance: dg.DagsterInstance, table: str) -> bool:
    """True if chunks of some partition were made after a table; its run is over, so it has not read them."""
    events = [
        instance.get_latest_materialization_event(dg.AssetKey(name))
        for name in (table, *CHUNKS_OF.values(), *SLOW.tables[:1])
    ]
    made, *chunks = (event.timestamp if event else 0.0 for event in events)
    return max(chunks) > made


def later_requests(settings: Settings, instance: dg.DagsterInstance, refresh: str) -> Asked:
    """Runs of what is made of the published index or waits for it: context, and very long texts."""
    lake = make_lake(settings)
    partitions = make_sources(settings).discover()
    taken = partitions_of(instance, under_way(instance))
    found = []
    for source_type, stale, tags in ((CONTEXT, stale_context, {}), (SLOW, stale_slow, LATER)):
        waiting = {p: t for p, t in stale(settings, partitions, lake).items() if p not in taken}
        works = partition_runs(instance, waiting, [source_type])
        found += [work.request(refresh, {**PARTITIONS, **tags}) for work in works]
    return found or dg.SkipReason("nothing changed: the index shows what the sources hold")


def publishing_request(settings: Settings, instance: dg.DagsterInstance, refresh: str) -> Asked:
    """A run of what is over the whole lake, if a backfill is under way that its conditions wait for."""
    if not in_backfills(settings, instance):
        return dg.SkipReason("what follows is asked for by the conditions of the assets")
    if others := [run for run in under_way(instance) if "dagster/backfill" not in run.tags]:
        return dg.SkipReason(f"run {others[0].run_id[:8]} is under way")
    return [_whole(settings).request(refresh, {SCOPE_TAG: WHOLE})]


def in_backfills(settings: Settings, instance: dg.DagsterInstance) -> set[str]:
    """The partitions that backfills under way are to make."""
    return partitions_of_backfills(instance, lambda: asset_definitions(settings))


def _whole(settings: Settings) -> Work:
    """What is over the whole lake; with a graph, what comes before its partitions, which the rest follows."""
    before, _ = around_graph(settings)
    return Work(tuple(before))


def _of_broken(settings: Settings, plan: Plan, taken: set[str]) -> list[Work]:
    """A run of the first partition of each source that cannot be read; it fails, and says what to do."""
    works = []
    for source in plan.broken:
        known = [p for p in plan.partitions if p.source == source and p.key not in taken]
        if known:
            tables = reading_tables(settings, known[0].source_type)
            works.append(Work(tables, known[0].key, known[0].key))
    return works


def _of_all(settings: Settings, instance: dg.DagsterInstance) -> list[Work]:
    """A run of the first partition that Dagster knows of each source; none of them can be read."""
    works = []
    for source in settings.sources:
        known = [
            p for p in instance.get_dynamic_partitions(source.source_type) if p.startswith(f"{source.name}/")
        ]
        if known:
            works.append(Work(reading_tables(settings, source.source_type), known[0], known[0]))
    return works
