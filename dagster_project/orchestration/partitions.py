"""The partitions of sources as Dagster's dynamic partitions, and the runs that make those that are stale."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import dagster as dg

from assets.partitions import PARTITIONS_OF_RUN, SOURCE_TYPES, SourceType
from assets.protocols.sources import SourcePartition
from assets.sources import changed_sources
from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.config.settings import Settings
from dagster_project.lake.lake import ParquetLake
from dagster_project.orchestration.plan import Plan, make_plan
from dagster_project.orchestration.work import Work

_VERSION = "dagster/data_version"
_FAILED_RUNS = 20
"""The last failed runs whose tables are looked at; a look asks for some rows of each table."""


def planned(settings: Settings, instance: dg.DagsterInstance, taken: Collection[str] = ()) -> Plan:
    """What has to run, without the partitions `taken` by runs under way; Dagster knows partitions and changes afterwards."""
    lake = make_lake(settings)
    with lake.one_look():
        plan = make_plan(settings, make_sources(settings), lake, taken)
        make_seen_partitions(settings).note(plan.partitions, lake)
        sync_partitions(instance, plan.partitions)
        changed_sources(instance, plan.partitions)
        report_restored(instance, lake, plan, taken)
    return plan


def sync_partitions(instance: dg.DagsterInstance, partitions: Sequence[SourcePartition]) -> None:
    """Make Dagster's partitions those of the sources; the files of those that are gone go with the next publish."""
    for source_type in SOURCE_TYPES:
        wanted = [u.key for u in partitions if u.source_type == source_type.name]
        known = {*instance.get_dynamic_partitions(source_type.partitions)}
        if added := [key for key in wanted if key not in known]:
            instance.add_dynamic_partitions(source_type.partitions, added)
        for gone in sorted(known - {*wanted}):
            instance.delete_dynamic_partition(source_type.partitions, gone)


def partition_runs(
    instance: dg.DagsterInstance,
    stale: Mapping[str, tuple[str, ...]],
    source_types: Sequence[SourceType] = SOURCE_TYPES,
    limit: int = PARTITIONS_OF_RUN,
) -> list[Work]:
    """The runs that make the stale tables of partitions: neighbours with equal needs together, at most `limit` each."""
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
    instance: dg.DagsterInstance, lake: ParquetLake, plan: Plan, taken: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Report those partitions as made whose last run failed, and which the lake has as they are to be nevertheless.

    A source that could not be read for a while leaves them: no run has to make them, and they would be shown as failed.
    Partitions `taken` by runs under way are left out. Returns table and partition of each.
    """
    tables = {table for source_type in SOURCE_TYPES for table in source_type.tables}
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    tried = {
        key for run in instance.get_runs(failed, limit=_FAILED_RUNS) for key in run.asset_selection or ()
    }
    right = {u.key for u in plan.partitions if u.source not in plan.broken} - set(taken)
    found = []
    for key in sorted(key for key in tried if key.path[-1] in tables and len(key.path) == 1):
        storage, table = instance.event_log_storage, key.path[-1]
        attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(key)
        for partition in sorted(attempts.keys() & right):
            footer = lake.footer(table, partition)
            if footer and table not in plan.stale.get(partition, ()):
                _report_again(instance, key, partition, footer.content_hash)
                found.append((table, partition))
    return found


def _report_again(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, version: str) -> None:
    """Report a partition with what its last materialization said, if that was of this version."""
    record = instance.get_latest_data_version_record(key, partition_key=partition)
    last = record.asset_materialization if record else None
    tags = dict(last.tags or {}) if last else {}
    if last is None or tags.get(_VERSION) != version:
        last, tags = dg.AssetMaterialization(key, partition=partition), {_VERSION: version}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(key, partition=partition, metadata=last.metadata, tags=tags)
    )
