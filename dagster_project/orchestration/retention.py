"""Dagster's history, bounded: finished runs go after some days, those that the UI needs stay."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable as Checks
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

_RUNLESS = ""
_AT_ONCE = 1000
"""Rows that one statement names; SQLite takes 32,766 at most."""
_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION.value


def prune_runs(instance: dg.DagsterInstance, keep_days: int) -> int:
    """Delete the runs that ended more than `keep_days` days ago; the number of them. 0 days delete nothing.

    A run stays as long as it is the last that made some partition of some asset: the UI would show that as missing.
    """
    if not keep_days:
        return 0
    before = datetime.now(UTC) - timedelta(days=keep_days)
    finished = dg.RunsFilter(statuses=list(FINISHED_STATUSES), updated_before=before)
    needed = _runs_that_made_what_is_there(instance)
    gone = [run_id for run_id in instance.get_run_ids(filters=finished) if run_id not in needed]
    for run_id in gone:
        instance.delete_run(run_id)
        _delete_files(instance, run_id)
    _delete_runless(instance, before)
    _delete_checks(instance)
    return len(gone)


def _latest() -> sa.Select:
    """Ids of the last materialization of every partition of every asset."""
    return (
        sa.select(sa.func.max(Events.c.id))
        .where(Events.c.dagster_event_type == _MATERIALIZED)
        .group_by(Events.c.asset_key, Events.c.partition)
    )


def _runs_that_made_what_is_there(instance: dg.DagsterInstance) -> set[str]:
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    with storage.index_connection() as connection:
        rows = connection.execute(sa.select(Events.c.run_id).where(Events.c.id.in_(_latest())).distinct())
        return {row[0] for row in rows}


def _delete_runless(instance: dg.DagsterInstance, before: datetime) -> None:
    """Delete the reports of no run, but for the last of each asset."""
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    with storage.index_connection() as connection:
        latest = [row[0] for row in connection.execute(_latest())]
        old = sa.and_(Events.c.run_id == _RUNLESS, Events.c.timestamp < before.replace(tzinfo=None))
        connection.execute(sa.delete(Events).where(old, Events.c.id.not_in(latest)))


def _delete_checks(instance: dg.DagsterInstance) -> None:
    """Delete what deleted runs found at checks, which Dagster leaves, but for the last of each check."""
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    latest = sa.select(sa.func.max(Checks.c.id)).group_by(
        Checks.c.asset_key, Checks.c.check_name, Checks.c.partition
    )
    known = set(instance.get_run_ids())
    with storage.index_connection() as connection:
        older = connection.execute(sa.select(Checks.c.id, Checks.c.run_id).where(Checks.c.id.not_in(latest)))
        gone = [row.id for row in older if row.run_id not in known]
        for first in range(0, len(gone), _AT_ONCE):
            connection.execute(sa.delete(Checks).where(Checks.c.id.in_(gone[first : first + _AT_ONCE])))


def _delete_files(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete what Dagster leaves of a deleted run: its emptied database and what its steps printed."""
    home = Path(instance.root_directory)
    for file in (home / "history" / "runs").glob(f"{run_id}.db*"):
        file.unlink(missing_ok=True)
    shutil.rmtree(home / "storage" / run_id, ignore_errors=True)
