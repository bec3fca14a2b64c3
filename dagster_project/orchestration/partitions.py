"""The partitions of sources as Dagster's dynamic partitions, the runs that make stale ones, and
backfills of them.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from assets.partitions import PARTITIONS_OF_RUN, SOURCE_TYPES, SourceType
from assets.protocols.sources import SourcePartition
from assets.sources import DATA_VERSION, changed_sources
from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.config.settings import Settings
from dagster_project.lake.lake import ParquetLake
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import LATER
from dagster_project.orchestration.plan import Plan, make_plan
from dagster_project.orchestration.runs import close_dead_runs, run_partitions, under_way
from dagster_project.orchestration.work import Work
from dagster_project.system.dagster_internals import request_backfill
from transforms.errors import SettingsError, WeftError

_FAILED_RUNS = 20
"""The last failed runs whose tables are looked at; a look asks for some rows of each table."""


def planned(settings: Settings, instance: dg.DagsterInstance, busy: Collection[str] = ()) -> Plan:
    """The plan without the partitions `busy` in runs under way; Dagster knows partitions and
    changes afterwards.
    """
    lake = make_lake(settings)
    with lake.one_look():
        plan = make_plan(settings, make_sources(settings), lake, busy)
        names = [source.name for source in settings.sources]
        make_seen_partitions(settings).note(plan.partitions, lake, names, plan.broken)
        sync_partitions(instance, plan.partitions)
        changed_sources(instance, plan.partitions)
        report_restored(instance, lake, plan, busy)
    return plan


def sync_partitions(instance: dg.DagsterInstance, partitions: Sequence[SourcePartition]) -> None:
    """Make Dagster's partitions those of the sources; the files of those that are gone go with the
    next publish.
    """
    for source_type in SOURCE_TYPES:
        current = [u.key for u in partitions if u.source_type == source_type.name]
        stored = {*instance.get_dynamic_partitions(source_type.partitions)}
        if new := [key for key in current if key not in stored]:
            instance.add_dynamic_partitions(source_type.partitions, new)
        for old in sorted(stored - {*current}):
            instance.delete_dynamic_partition(source_type.partitions, old)


def partition_runs(
    instance: dg.DagsterInstance,
    stale: Mapping[str, tuple[str, ...]],
    source_types: Sequence[SourceType] = SOURCE_TYPES,
    limit: int = PARTITIONS_OF_RUN,
) -> list[Work]:
    """The runs that make the stale tables of partitions: neighbours with equal needs together, at
    most `limit` each.
    """
    groups: list[tuple[list[str], tuple[str, ...]]] = []
    for source_type in source_types:
        previous: tuple[str, ...] | None = None
        for partition in instance.get_dynamic_partitions(source_type.partitions):
            tables = stale.get(partition)
            if tables is not None:
                if tables == previous and len(groups[-1][0]) < limit:
                    groups[-1][0].append(partition)
                else:
                    groups.append(([partition], tables))
            previous = tables
    return [Work(tables, members[0], members[-1]) for members, tables in groups]


def report_restored(
    instance: dg.DagsterInstance, lake: ParquetLake, plan: Plan, busy: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Report those partitions as made whose last run failed, and which the lake has as they are to
    be nevertheless.

    A source that could not be read for a while leaves them: no run has to make them, and they would
    be shown as failed. Partitions `busy` in runs under way are left out. Returns table and
    partition of each.
    """
    tables = {table for source_type in SOURCE_TYPES for table in source_type.tables}
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    tried = {
        k
        for run in instance.get_runs(failed, limit=_FAILED_RUNS)
        for k in run.asset_selection or ()
    }
    right = {u.key for u in plan.partitions if u.source not in plan.broken} - set(busy)
    result = []
    for key in sorted(key for key in tried if key.path[-1] in tables and len(key.path) == 1):
        storage, table = instance.event_log_storage, key.path[-1]
        attempts = (
            storage.get_latest_asset_partition_materialization_attempts_without_materializations(
                key
            )
        )
        for partition in sorted(attempts.keys() & right):
            footer = lake.footer(table, partition)
            if footer and table not in plan.stale.get(partition, ()):
                _report_again(instance, key, partition, footer.content_hash)
                result.append((table, partition))
    return result


def _report_again(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, version: str
) -> None:
    """Report a partition with the facts of its last materialization, if that was of this version."""
    record = instance.get_latest_data_version_record(key, partition_key=partition)
    last = record.asset_materialization if record else None
    tags = dict(last.tags or {}) if last else {}
    if last is None or tags.get(DATA_VERSION) != version:
        last, tags = dg.AssetMaterialization(key, partition=partition), {DATA_VERSION: version}
    again = dg.AssetMaterialization(key, partition=partition, metadata=last.metadata, tags=tags)
    instance.report_runless_asset_event(again)


_DAEMON, _ALIVE_SECONDS = "BACKFILL", 120
"""The daemon that works backfills off, and how long ago it may have shown that it lives."""


@dataclass(frozen=True)
class BackfillRequest:
    """The requested backfill: its id, None if nothing is stale, its partitions, and sources that
    cannot be read.
    """

    backfill: str | None
    partitions: tuple[str, ...]
    broken: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The output of `weft build --backfill --json`."""
        return {"outcome": "REQUESTED" if self.backfill else "UNCHANGED", **asdict(self)}


def backfill(
    settings: Settings, instance: dg.DagsterInstance, names: Sequence[str] = ()
) -> BackfillRequest:
    """Ask for a backfill of the stale partitions of all sources, or of those named.

    Runs of every hour go on meanwhile; when it ends, one publish follows. SettingsError for a name
    that is not a source, WeftError where no daemon runs that would work it off.
    """
    if unknown := sorted(set(names) - {s.name for s in settings.sources}):
        raise SettingsError(f"no source is called {unknown[0]!r}")
    beat = instance.get_daemon_heartbeats().get(_DAEMON)
    if beat is None or time.time() - beat.timestamp > _ALIVE_SECONDS:
        raise WeftError(
            "no Dagster daemon runs that would work a backfill off: start `weft ui` (or `dagster-daemon run`), or let "
            "`weft build` make everything here"
        )
    close_dead_runs(instance, settings.root)
    plan = planned(settings, instance, run_partitions(instance, under_way(instance)))
    source_of = {partition.key: partition.source for partition in plan.partitions}
    stale = {p: t for p, t in plan.stale.items() if not names or source_of[p] in names}
    broken = {
        source: fault for source, fault in plan.broken.items() if not names or source in names
    }
    if not stale:
        return BackfillRequest(None, (), broken)
    ranges: dict[dg.AssetKey, list[tuple[str, str]]] = {}
    for work in partition_runs(instance, stale):
        for key in work.keys:
            ranges.setdefault(key, []).append((str(work.first), str(work.last)))
    backfill_id = request_backfill(instance, asset_definitions(settings), ranges, LATER)
    return BackfillRequest(backfill_id, tuple(sorted(stale)), broken)
