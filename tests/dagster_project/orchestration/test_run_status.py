"""Runs whose process is gone: they hold nothing up, and somebody hears of them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
import time_machine
from dagster_project.orchestration.recovery import build_in_progress
from dagster_project.orchestration.run_status import at_work, run_under_way

from dagster_project.definitions import build_definitions
from dagster_project.orchestration.names import BACKFILL, REFRESH, SLOW_LANE
from dagster_project.resources.system.locks import only_build
from tests.archives import Mail, Workspace
from tests.dagster_project.orchestration.test_alerts import KEEP, kept

LATER = timedelta(minutes=10)
STARTED = dg.DagsterRunStatus.STARTED


@pytest.fixture
def mailed(workspace: Workspace) -> Workspace:
    """A workspace with one mail that nobody has built, and alerts kept in the file `told`."""
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    return workspace.configure(
        alerts={"command": [sys.executable, "-c", KEEP, str(workspace.folder / "told")]}
    )


def begun(work: Workspace, instance: dg.DagsterInstance, job: str) -> dg.DagsterRun:
    """A run of a job that has started, of which nothing more is heard."""
    definition = build_definitions(work.settings).resolve_job_def(job)
    return instance.create_run_for_job(definition, status=STARTED, tags=definition.tags)


@pytest.mark.parametrize("job", [REFRESH, SLOW_LANE, BACKFILL])
def test_a_run_whose_process_is_gone_is_closed_and_one_that_lives_is_not(mailed: Workspace, job: str):
    root = mailed.settings.root
    with mailed.instance() as instance:
        run = begun(mailed, instance, job)
        assert run_under_way(instance, root, job) == run, "it has just begun"
        assert run_under_way(instance, root / "another", job) is None
        with time_machine.travel(datetime.now(UTC) + LATER):
            with at_work(root, job):
                assert run_under_way(instance, root, job) == run
            assert run_under_way(instance, root, job) is None
        closed = instance.get_run_by_id(run.run_id)
    assert closed and closed.status == dg.DagsterRunStatus.FAILURE


def test_a_run_that_began_by_a_clock_that_was_set_back_since_is_closed_when_its_process_is_gone(
    mailed: Workspace,
):
    root = mailed.settings.root
    with mailed.instance() as instance:
        run = begun(mailed, instance, REFRESH)
        with time_machine.travel(datetime.now(UTC) - timedelta(days=2)):
            with at_work(root, REFRESH):
                assert run_under_way(instance, root, REFRESH) == run
            assert run_under_way(instance, root, REFRESH) is None


def test_the_schedule_does_not_wait_for_a_run_that_was_killed(mailed: Workspace):
    schedule = build_definitions(mailed.settings).resolve_schedule_def(f"{REFRESH}_every_hour")
    with mailed.instance() as instance:
        begun(mailed, instance, REFRESH)
        with dg.build_schedule_context(instance=instance) as context:
            assert isinstance(schedule(context), dg.SkipReason)
            with time_machine.travel(datetime.now(UTC) + LATER):
                assert isinstance(schedule(context), dg.RunRequest)


def test_a_build_closes_the_runs_of_jobs_that_were_killed_and_tells_of_them(mailed: Workspace):
    root = mailed.settings.root
    with mailed.instance() as instance:
        (root / ".build.going").write_text("2004-01-05T10:00:00+00:00")
        run = begun(mailed, instance, REFRESH)
        with (
            time_machine.travel(datetime.now(UTC) + LATER),
            only_build(root),
            build_in_progress(mailed.settings, instance) as (found,),
        ):
            assert found.runs == (run.run_id,)
    (told,) = kept(mailed.folder / "told")
    assert (told["event"], told["work"], told["runs"]) == ("build_interrupted", "build", [run.run_id])


def lost(work: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Let the sensor `lost_runs` see that a run failed."""
    (failure,) = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records
    event = failure.event_log_entry.dagster_event
    assert event
    context = dg.build_run_status_sensor_context("lost_runs", event, instance, run)
    build_definitions(work.settings).resolve_sensor_def("lost_runs")(context.for_run_failure())


def test_a_run_that_dagster_ends_is_told_and_one_that_told_of_its_fault_is_not_told_twice(mailed: Workspace):
    told = mailed.folder / "told"
    with mailed.instance() as instance:
        run = begun(mailed, instance, REFRESH)
        instance.report_run_failed(run, "Exceeded maximum runtime of 10800 seconds.")
        lost(mailed, instance, run)
        assert [(t["event"], t["job"], t["run_id"]) for t in kept(told)] == [
            ("run_lost", REFRESH, run.run_id)
        ]
        (mailed.folder / "mail" / "dev.2004-01.mbox").unlink()
        job = build_definitions(mailed.settings).resolve_job_def(REFRESH)
        failed = job.execute_in_process(instance=instance, raise_on_error=False)
        lost(mailed, instance, failed.dagster_run)
    assert [t["event"] for t in kept(told)] == ["run_lost", "build_failed"]
    assert "0800" not in json.dumps(kept(told))


def test_without_alerts_there_is_no_sensor_for_lost_runs(workspace: Workspace):
    sensors = {sensor.name for sensor in build_definitions(workspace.settings).sensors or ()}
    assert sensors == {"vault_edits", "slow_lane_waits"}
