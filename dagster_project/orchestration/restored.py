"""Partitions whose last run failed, and which are right again without another run."""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from assets.partitions import SOURCE_TYPES
from dagster_project.orchestration.plan import Plan
from dagster_project.resources.lake.lake import ParquetLake

_VERSION = "dagster/data_version"
_FAILED_RUNS = 20
"""The last failed runs whose tables are looked at; a look asks for some rows of each table."""


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
