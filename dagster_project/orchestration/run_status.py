"""Runs of the jobs that do what people name as one thing: which is under way, which is dead, and who hears of that."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
from dagster._core.execution.plan.objects import ErrorSource, StepFailureData

from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_lost_run
from dagster_project.orchestration.names import STORAGE_TAG
from dagster_project.resources.system.locks import is_held, lane_lock, only_lane

_UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
_BEGINS_WITHIN_SECONDS = 120
"""Seconds after its start in which the process of a run has taken its lock, on any machine that is of use."""


@contextlib.contextmanager
def at_work(root: Path, job: str) -> Iterator[None]:
    """Hold the lock that says that a run of `job` lives; BusyError if another one does. A backfill holds its own."""
    with only_lane(root, job):
        yield


def run_under_way(instance: dg.DagsterInstance, root: Path, job: str) -> dg.DagsterRun | None:
    """The run of a job that waits or is going, if there is one; those whose process is gone are closed.

    Dagster would take such a run for a living one until its time is over, and nothing would be asked for meanwhile.
    """
    of_job = dg.RunsFilter(job_name=job, statuses=_UNDER_WAY, tags={STORAGE_TAG: str(root)})
    living = [
        record.dagster_run
        for record in instance.get_run_records(of_job)
        if not _closed_if_dead(instance, root, record)
    ]
    return living[0] if living else None


def close_dead_job_runs(instance: dg.DagsterInstance, root: Path) -> tuple[str, ...]:
    """Report the runs of jobs whose process is gone as failed; their ids."""
    of_root = dg.RunsFilter(statuses=_UNDER_WAY, tags={STORAGE_TAG: str(root)})
    records = instance.get_run_records(of_root)
    return tuple(r.dagster_run.run_id for r in records if _closed_if_dead(instance, root, r))


def _closed_if_dead(instance: dg.DagsterInstance, root: Path, record: dg.RunRecord) -> bool:
    """True if a run was going and its process is gone, which the lock of its job tells; it is failed then."""
    run = record.dagster_run
    age = time.time() - (record.start_time or record.create_timestamp.timestamp())
    if (
        run.status != dg.DagsterRunStatus.STARTED
        or 0 <= age < _BEGINS_WITHIN_SECONDS  # below 0 the clock was set back, perhaps by days
        or is_held(lane_lock(root, run.job_name))
    ):
        return False
    instance.report_run_failed(run, "its process ended before the run did")
    return True


def lost_runs_sensor(settings: Settings, jobs: list[dg.JobDefinition]) -> dg.SensorDefinition:
    """The sensor `lost_runs`: an alert for a run that was killed, or ended because it took too long.

    What a run that fails by itself tells is not told again.
    """

    @dg.run_failure_sensor(
        name="lost_runs",
        monitored_jobs=jobs,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert for a run that was killed, or that was ended because it took too long.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if any(_is_fault(event) for event in context.get_step_failure_events()):
            return dg.SkipReason("the run told of its fault itself")
        alert_lost_run(
            settings.alerts, settings.root, context.dagster_run.job_name, context.dagster_run.run_id
        )
        return None

    return sensor


def _is_fault(event: dg.DagsterEvent) -> bool:
    """True if a step failed, and was not just interrupted."""
    data = event.event_specific_data
    return isinstance(data, StepFailureData) and data.error_source != ErrorSource.INTERRUPT
