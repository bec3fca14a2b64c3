"""Running what changed: the work behind `weft build` and the hourly schedule."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import dagster as dg

from assets.embedding import PAID_TWICE
from assets.partitions import CONTEXT_TABLES, GRAPH, SLOW, SLOW_POOL, SOURCE_TYPES
from dagster_project.composition import (
    make_backlog,
    make_lake,
    make_publisher,
    make_seen_partitions,
    make_sources,
)
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_checks, alert_fetches, alert_sources, alerting
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.fetch import fetch_sources
from dagster_project.orchestration.freshness import note_unchanged
from dagster_project.orchestration.job_execution import run_job
from dagster_project.orchestration.names import CONTEXT, LANE_TAG, PUBLISH, REPORT, ROOT_TAG
from dagster_project.orchestration.outcomes import BuildResult, FailedCheck, FetchOutcome, Interrupted
from dagster_project.orchestration.plan import (
    Plan,
    context_is_right,
    make_plan,
    stale_graph,
    stale_slow,
    sync_partitions,
)
from dagster_project.orchestration.recovery import build_in_progress, clock_behind, lane_in_progress
from dagster_project.orchestration.workers import Workers, make_partitions, source_bytes, workers_for
from dagster_project.resources.lake.oversize import waiting_bytes
from dagster_project.resources.progress import CountedProgress
from dagster_project.resources.publish.publisher import DuckDBPublisher
from dagster_project.resources.system.disk_space import is_of_full_disk, may_be_written, require_writable
from dagster_project.resources.system.disk_watch import translate_disk_faults
from dagster_project.resources.system.locks import only_build, only_lane, turn
from transforms.errors import BusyError, LakeDamageError, WeftError

_ADDED_UP = ("embedded", "calls", "tokens", "truncated_texts", "estimated_cost_usd", PAID_TWICE)


@dataclass(frozen=True)
class BuildOptions:
    """Whether a build fetches first, makes what waits for the slow lane, and reads every byte of the lake first."""

    fetch: bool = True
    slow: bool = True
    verify: bool = False


DEFAULT = BuildOptions()


def build(
    settings: Settings,
    instance: dg.DagsterInstance,
    options: BuildOptions = DEFAULT,
    *,
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> BuildResult:
    """Bring the published index up to date: fetch, discover, materialize what changed, publish.

    Runs the same jobs as the Dagster UI, in this process, and none if nothing changed. Other builds may begin
    while this one works off the slow lane, which it publishes last. If a remote fails, the build uses what it fetched
    earlier, and `fetched` of the result has the fault. If a source cannot be read, the index keeps what it has of it,
    and `broken` of the plan has the fault; SourceError if none can be read. Files of the lake that are corrupt
    inside are found by `options.verify`, or when a step fails for no reason of its own, and rebuilt. Raises BusyError
    while another build of the same storage runs, and WeftError when a run fails, with the step and the reason.
    Failures and warning checks are sent to `[alerts]`.
    """
    start = time.monotonic()
    progress, behind = CountedProgress(tell), clock_behind(settings)
    with alerting(settings.alerts, settings.root), translate_disk_faults(settings.root):
        with only_build(settings.root), build_in_progress(settings, instance) as interrupted:
            fetched = fetch_sources(settings, instance, tell=tell) if options.fetch else {}
            spoiled = make_lake(settings).discard_corrupt() if options.verify else {}
            result = _build_of_whole_files(settings, instance, progress, on_plan, spoiled)
        if options.slow:
            result = _with_slow_lane(settings, instance, progress, result)
    seconds = time.monotonic() - start
    result = replace(
        result,
        fetched=fetched,
        stages=_timings(progress),
        seconds=seconds,
        interrupted=(*interrupted, *result.interrupted),
        clock_behind=behind,
    )
    alert_checks(settings.alerts, settings.root, result.failed_checks)
    alert_fetches(settings.alerts, settings.root, [name for name, o in fetched.items() if o.fault])
    alert_sources(settings.alerts, settings.root, result.plan.broken)
    return result


def fetch_only(
    settings: Settings, instance: dg.DagsterInstance, names: Sequence[str] = ()
) -> dict[str, FetchOutcome]:
    """Fetch all sources that have a remote, or those named; BusyError while a build runs."""
    with (
        translate_disk_faults(settings.root),
        only_build(settings.root),
        build_in_progress(settings, instance),
    ):
        return fetch_sources(settings, instance, names)


def make_texts(
    settings: Settings,
    instance: dg.DagsterInstance,
    *,
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> None:
    """Bring the lake up to date as far as it costs nothing: all that the texts are made of is there.

    On a storage that may not be written, UnwritableError unless all is made. Raises as `build` does.
    """
    if not may_be_written(settings.root):
        if make_plan(settings, make_sources(settings), make_lake(settings)).publish:
            require_writable(settings.root, settings.root)
        return
    with (
        translate_disk_faults(settings.root),
        only_build(settings.root),
        build_in_progress(settings, instance),
    ):
        plan = planned(settings, instance)
        on_plan(plan)
        if plan.publish:
            definitions = asset_definitions(settings, {"progress": CountedProgress(tell)})
            tags = {ROOT_TAG: str(settings.root)}
            make_partitions(definitions, instance, plan.stale, SOURCE_TYPES, tags)
            _make_whole(settings, instance, plan, definitions, [], only_texts=True)


def make_slow(
    settings: Settings, instance: dg.DagsterInstance, progress: CountedProgress
) -> tuple[tuple[str, ...], tuple[Interrupted, ...]]:
    """Make what waits for the slow lane, beside builds; the partitions that were made, and what was left by killed work.

    BusyError if another process is at it.
    """
    with only_lane(settings.root, SLOW.name), lane_in_progress(settings, instance, SLOW.name) as interrupted:
        waiting = stale_slow(settings, make_sources(settings).discover(), make_lake(settings))
        definitions = asset_definitions(settings, {"progress": progress})
        tags = {ROOT_TAG: str(settings.root), LANE_TAG: SLOW.name}
        make_partitions(definitions, instance, waiting, [SLOW], tags)
        return tuple(sorted(waiting)), interrupted


def publish_slow_lane(
    settings: Settings,
    instance: dg.DagsterInstance,
    *,
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
) -> BuildResult:
    """Make what waits for the slow lane and publish it, as the end of `build` does; it raises as that."""
    start, progress = time.monotonic(), CountedProgress(tell)
    with alerting(settings.alerts, settings.root):
        nothing = BuildResult(Plan((), {}, (), False), None, 0.0)
        result = _with_slow_lane(settings, instance, progress, nothing)
    alert_checks(settings.alerts, settings.root, result.failed_checks)
    return replace(result, stages=_timings(progress), seconds=time.monotonic() - start)


def publish_all(settings: Settings, instance: dg.DagsterInstance, progress: CountedProgress) -> BuildResult:
    """What `build` does without fetching, once a build that is running has ended."""
    with turn(settings.root):
        result = _build(settings, instance, progress)
    result = _with_slow_lane(settings, instance, progress, result)
    return replace(result, stages=_timings(progress))


def _with_slow_lane(
    settings: Settings, instance: dg.DagsterInstance, progress: CountedProgress, result: BuildResult
) -> BuildResult:
    """`result` with what the slow lane made and published, if something waited and no other process makes it."""
    with contextlib.suppress(BusyError):
        made, interrupted = make_slow(settings, instance, progress)
        result = replace(result, interrupted=(*result.interrupted, *interrupted))
        if made:
            with turn(settings.root):
                later = _build(settings, instance, progress)
            first, figures = result.embedding, dict(later.embedding)
            figures |= {k: first[k] + figures.get(k, 0) for k in _ADDED_UP if k in first and figures}
            return replace(
                result,
                slow=(*result.slow, *made),
                published=later.published or result.published,
                embedding=figures or result.embedding,
                failed_checks=later.failed_checks or result.failed_checks,
            )
    return result


def _build_of_whole_files(
    settings: Settings,
    instance: dg.DagsterInstance,
    progress: CountedProgress,
    on_plan: Callable[[Plan], None],
    spoiled: Mapping[str, str],
) -> BuildResult:
    """`_build`, and once more if it fails for no reason of its own and files of the lake are damaged inside."""
    try:
        return _build(settings, instance, progress, on_plan, spoiled)
    except WeftError as fault:
        if type(fault) not in (WeftError, LakeDamageError) or is_of_full_disk(fault):
            raise
        found = make_lake(settings).discard_corrupt()
        if not found:
            raise
    return _build(settings, instance, progress, on_plan, {**spoiled, **found})


def _build(
    settings: Settings,
    instance: dg.DagsterInstance,
    progress: CountedProgress,
    on_plan: Callable[[Plan], None] = lambda plan: None,
    spoiled: Mapping[str, str] = MappingProxyType({}),
) -> BuildResult:
    """What has to run, run; `spoiled` are files of the lake that were found damaged and are gone, by path."""
    start = time.monotonic()
    plan = planned(settings, instance)
    plan = replace(plan, damaged={**plan.damaged, **spoiled})
    on_plan(plan)
    if plan.is_empty:
        note_unchanged(settings, instance)
        return BuildResult(plan, None, time.monotonic() - start)
    published: dict[str, Any] | None = None
    figures: dict[str, Any] = {}
    failed: list[FailedCheck] = []
    slow: tuple[str, ...] = ()
    if plan.publish or plan.stale:
        tags = {ROOT_TAG: str(settings.root)}
        definitions = asset_definitions(settings, {"progress": progress})
        stale = [partition for partition in plan.partitions if partition.key in plan.stale]
        with workers_for(settings, instance, progress, stale) as workers:
            make_partitions(definitions, instance, plan.stale, SOURCE_TYPES, tags, workers)
            if plan.publish:
                slow = _make_small(settings, instance, plan, definitions, workers)
    if plan.publish:
        made = _make_whole(settings, instance, plan, definitions, failed)
        published = made["search_index"]
        progress.step("search_index", None, sum(v for k, v in published.items() if k.startswith("rows_")))
        figures = _figures(made["embeddings"])
    _find_context(settings, instance, plan, progress)
    seconds = time.monotonic() - start
    return BuildResult(plan, published, seconds, embedding=figures, failed_checks=tuple(failed), slow=slow)


def _timings(progress: CountedProgress) -> dict[str, dict[str, float]]:
    return {n: {"rows": progress.rows[n], "seconds": progress.seconds[n]} for n in progress.rows}


def _find_context(
    settings: Settings, instance: dg.DagsterInstance, plan: Plan, progress: CountedProgress
) -> None:
    """Ask the published index with every conversation, unless what they found is of that version already."""
    lake = make_lake(settings)
    if context_is_right(settings, plan.partitions, lake):
        return
    job = asset_definitions(settings, {"progress": progress}).resolve_job_def(CONTEXT)
    run_job(job, instance, CONTEXT_TABLES, {ROOT_TAG: str(settings.root)})
    footer = lake.footer(CONTEXT_TABLES[-1])
    progress.step(CONTEXT_TABLES[-1], None, footer.row_count if footer else 0)


def planned(settings: Settings, instance: dg.DagsterInstance) -> Plan:
    """What has to run."""
    lake = make_lake(settings)
    plan = make_plan(settings, make_sources(settings), lake, make_backlog(settings).remaining())
    make_seen_partitions(settings).note(plan.partitions, lake)
    sync_partitions(instance, plan, lake)
    return plan


def _make_small(
    settings: Settings,
    instance: dg.DagsterInstance,
    plan: Plan,
    definitions: dg.Definitions,
    workers: Workers | None,
) -> tuple[str, ...]:
    """Make what waits for the slow lane, if all of it is little; the partitions that were made."""
    lake = make_lake(settings)
    waiting = stale_slow(settings, plan.partitions, lake)
    if not waiting or waiting_bytes(lake, waiting) > _slow_at_once(
        settings, plan, make_publisher(settings, lake)
    ):
        return ()
    with contextlib.suppress(BusyError), only_lane(settings.root, SLOW.name):
        if workers:
            _widen_pool(instance, SLOW_POOL, workers.count)
        make_partitions(definitions, instance, waiting, [SLOW], {ROOT_TAG: str(settings.root)}, workers)
        return tuple(sorted(waiting))
    return ()


def _widen_pool(instance: dg.DagsterInstance, pool: str, places: int) -> None:
    """Give a pool that has the default limit so many places; one that somebody gave it stays."""
    storage = instance.event_log_storage
    if all(limit.from_default for limit in storage.get_pool_limits() if limit.name == pool):
        storage.set_concurrency_slots(pool, places)


def _slow_at_once(settings: Settings, plan: Plan, publisher: DuckDBPublisher) -> float:
    """Bytes of text that may wait for the slow lane and are made before publishing nevertheless."""
    limits, current = settings.operations, publisher.current()
    if current and publisher.fits_settings():
        return max(limits.slow_at_once_bytes, limits.slow_at_once_share * current.stat().st_size)
    # A version that is built from nothing takes as long as all that it is built of, and the next one nearly so.
    return max(
        limits.slow_at_once_bytes, limits.slow_at_first_share * source_bytes(settings, plan.partitions)
    )


def _make_whole(
    settings: Settings,
    instance: dg.DagsterInstance,
    plan: Plan,
    definitions: dg.Definitions,
    failed: list[FailedCheck],
    *,
    only_texts: bool = False,
) -> dict[str, dict[str, Any]]:
    """Make what is over the whole lake; its metadata by table.

    Checks that only warn and did not pass are added to `failed`.
    With `only_texts` no more is made than what texts to embed are made of, which costs nothing.
    """
    of_lake = {ROOT_TAG: str(settings.root)}

    def make_whole(tables: Sequence[str]) -> dict[str, dict[str, Any]]:
        result = run_job(definitions.resolve_job_def(PUBLISH), instance, tables, of_lake)
        failed.extend(_failed_checks(result))
        events = (e.materialization for e in result.get_asset_materialization_events())
        return {m.asset_key.path[-1]: {k: v.value for k, v in m.metadata.items()} for m in events}

    before, after = _around_graph(settings)
    if only_texts:
        assets = make_assets(settings)
        needed = dg.AssetSelection.assets("chunk_context").upstream(include_self=False).resolve(assets)
        names = {key.path[-1] for made in assets if made.keys & needed for key in made.keys}
        return make_whole([table for table in before if table in names])
    if not settings.graph.enabled:
        return make_whole([*before, *after])
    made = make_whole(before)
    stale = stale_graph(settings, plan.partitions, make_lake(settings))
    make_partitions(definitions, instance, stale, [GRAPH], of_lake)
    return made | make_whole(after)


def _around_graph(settings: Settings) -> tuple[list[str], list[str]]:
    """The tables over the whole lake in order: those before the graph's partitions, and those made of these."""
    before: list[str] = []
    after: list[str] = []
    for definition in make_assets(settings):
        needed = {key.path[-1] for key in definition.dependency_keys}
        own = [key.path[-1] for key in definition.keys]
        if definition.partitions_def is None and not set(own) & set(CONTEXT_TABLES):
            (after if needed & {*GRAPH.tables, *after} else before).extend(own)
    return before, after


def _failed_checks(result: dg.ExecuteInProcessResult) -> list[FailedCheck]:
    return [
        FailedCheck(c.asset_key.path[-1], c.check_name, _numbers(c.metadata))
        for c in result.get_asset_check_evaluations()
        if not c.passed
    ]


def _numbers(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, Any]:
    """What of a check may leave the machine: its figures, no words."""
    return {k: v.value for k, v in metadata.items() if isinstance(v.value, int | float | dict)}


def make_report(settings: Settings, instance: dg.DagsterInstance) -> None:
    """Make the report on how the system does, as the job `report` does; WeftError if that fails."""
    job = asset_definitions(settings).resolve_job_def(REPORT)
    with alerting(settings.alerts, settings.root):
        run_job(job, instance, ["operations_report"], {ROOT_TAG: str(settings.root)})


def _figures(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers in the metadata of an asset that a run made, without those of Dagster's own names."""
    return {k: v for k, v in metadata.items() if isinstance(v, int | float) and "/" not in k}
