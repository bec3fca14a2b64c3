"""Dagster's history, bounded: finished runs go after some days, those that the UI needs stay."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from dagster_project.orchestration.runs import FINISHED


def prune_runs(instance: dg.DagsterInstance, keep_days: int, limit: int | None = None) -> int:
    """Delete the runs that ended more than `keep_days` days ago, at most `limit`; their number. 0 days delete nothing.

    A run stays as long as it is the last that made some partition of some asset: the UI would show that as missing. What
    checks found stays, too: Dagster deletes no evaluation with its run, and offers no way to.
    """
    if not keep_days:
        return 0
    before = datetime.now(UTC) - timedelta(days=keep_days)
    old = instance.get_run_ids(filters=dg.RunsFilter(statuses=FINISHED, updated_before=before))
    if not old:
        return 0
    needed = _runs_that_made_what_is_there(instance)
    gone = [run_id for run_id in old if run_id not in needed][:limit]
    home = Path(instance.root_directory)
    for run_id in gone:
        instance.delete_run(run_id)
        # Dagster leaves the emptied database of the run and what its steps printed.
        for file in (home / "history" / "runs").glob(f"{run_id}.db*"):
            file.unlink(missing_ok=True)
        shutil.rmtree(home / "storage" / run_id, ignore_errors=True)
    return len(gone)


def _runs_that_made_what_is_there(instance: dg.DagsterInstance) -> set[str]:
    """The runs of the last materialization of every partition of every asset."""
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    found: set[str] = set()
    for asset in instance.all_asset_keys():
        latest = list(instance.event_log_storage.get_latest_storage_id_by_partition(asset, made).values())
        records = dg.AssetRecordsFilter(asset_key=asset, storage_ids=latest)
        if latest:
            found |= {r.run_id for r in instance.fetch_materializations(records, limit=len(latest)).records}
        if event := instance.get_latest_materialization_event(asset):
            found.add(event.run_id)
    return found
