"""Runs that live, runs whose process is gone, and what each holds while it lives."""

import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

from assets.partitions import MAIL
from dagster_project.config.allowed_commands import allow
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.build import build
from dagster_project.orchestration.names import COMMAND_TAG, WAITS
from dagster_project.orchestration.partitions import planned, report_restored
from dagster_project.orchestration.runs import close_dead_runs, living, others_at_work
from dagster_project.system.locks import lake_lock, living_run, runs_of
from tests.archives import Mail, Workspace
from tests.daemon import Daemon
from tests.dagster_project.orchestration.test_alerts import KEEP, kept
from tests.processes import forked
from tests.runs import begun_run, run_of_dagster
from tests.timing import HUNG, until

READ = ("attachments", "messages", "quarantine")
USERS = "users/2004-01"
FAILURE, STARTED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED


@pytest.fixture
def mailed(workspace: Workspace) -> Workspace:
    """A workspace with one mail that nobody has built, and alerts kept in the file `told`."""
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    command = [sys.executable, "-c", KEEP, str(workspace.folder / "told")]
    allow(command, workspace.configure(alerts={"command": command}).settings.root)
    return workspace


@pytest.fixture
def instance(mailed: Workspace) -> Iterator[dg.DagsterInstance]:
    with mailed.instance() as opened:
        yield opened


def status_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found
    return found.status


def _live(root: Path, run_id: str) -> None:
    with living_run(root, run_id):
        threading.Event().wait()


def killed(root: Path, run_id: str) -> None:
    """Begin a run in a process of its own, and kill it."""
    process = forked(_live, root, run_id)
    process.start()
    until(lambda: runs_of(root).get(run_id), "a run that lives")
    process.kill()
    process.join()


def test_a_run_whose_process_is_gone_is_closed_and_one_that_lives_is_not(
    mailed: Workspace, instance: dg.DagsterInstance
):
    root = mailed.settings.root
    dead, alive, begins = (begun_run(mailed, instance, MAIL.tables) for _ in range(3))
    killed(root, dead.run_id)
    with living_run(root, alive.run_id):
        assert [run.run_id for run in living(instance, root)] == [alive.run_id]
        assert others_at_work(instance, root, dead.run_id) == [
            f"run {alive.run_id[:8]} of address_uses, attachments, message_blocks"
        ]
        assert others_at_work(instance, root, alive.run_id) == []
        (found,) = close_dead_runs(instance, root)
    assert found.run == dead.run_id and found.tables[0] == "address_uses"
    assert [status_of(instance, run) for run in (dead, alive, begins)] == [
        FAILURE,
        STARTED,
        STARTED,
    ]
    assert runs_of(root) == {} and close_dead_runs(instance, root) == ()


def test_a_command_that_works_alone_closes_those_before_it_that_held_nothing(
    mailed: Workspace, instance: dg.DagsterInstance
):
    root = mailed.settings.root
    before, elsewhere = (
        begun_run(mailed, instance, MAIL.tables, tags={COMMAND_TAG: str(place)})
        for place in (root, "/else")
    )
    assert close_dead_runs(instance, root) == ()
    (found,) = close_dead_runs(instance, root, only_command=True)
    assert found.run == before.run_id
    assert [status_of(instance, run) for run in (before, elsewhere)] == [FAILURE, STARTED]


def test_a_run_that_ended_well_and_left_its_lock_is_no_interruption(
    mailed: Workspace, instance: dg.DagsterInstance
):
    run = begun_run(mailed, instance, MAIL.tables, status=dg.DagsterRunStatus.SUCCESS)
    killed(mailed.settings.root, run.run_id)
    assert close_dead_runs(instance, mailed.settings.root) == ()
    assert runs_of(mailed.settings.root) == {}


def test_the_place_in_a_pool_of_a_run_that_is_gone_is_freed(
    mailed: Workspace, instance: dg.DagsterInstance
):
    dead = begun_run(mailed, instance, MAIL.tables)
    storage = instance.event_log_storage
    storage.set_concurrency_slots("embedding", 1)
    assert storage.claim_concurrency_slot("embedding", dead.run_id, "embeddings").is_claimed
    killed(mailed.settings.root, dead.run_id)
    close_dead_runs(instance, mailed.settings.root)
    assert storage.claim_concurrency_slot("embedding", "another", "embeddings").is_claimed


def test_the_next_look_closes_a_run_that_was_killed_tells_of_it_and_asks_again(
    mailed: Workspace, instance: dg.DagsterInstance
):
    daemon = Daemon(mailed, instance)
    (run,) = daemon.hour()
    killed(mailed.settings.root, run.run_id)
    assert daemon.look() == [] and daemon.why.startswith("all that is left was tried")
    assert status_of(instance, run) == FAILURE
    (again,) = daemon.hour()
    assert (again.job_name, again.asset_selection) == ("mail_partitions", run.asset_selection)
    (told,) = kept(mailed.folder / "told")
    assert (told["event"], told["run_id"]) == ("run_interrupted", run.run_id)


def test_a_run_that_ends_by_a_clock_that_was_set_is_followed(
    mailed: Workspace, instance: dg.DagsterInstance
):
    daemon = Daemon(mailed, instance)
    (run,) = daemon.hour()
    instance.report_run_canceled(run)
    assert daemon.look() == [] and daemon.why.startswith("all that is left was tried")
    for days in (30, 0, -30):
        (again,) = daemon.hour()
        assert again.asset_selection == run.asset_selection
        with freeze_time(datetime.now(UTC) + timedelta(days=days)):
            instance.report_run_canceled(again)
        assert daemon.look() == []
    assert daemon.look() == [] and daemon.why == "no run has ended since nothing was left to do"


def test_a_run_that_dagster_ends_is_told(mailed: Workspace, instance: dg.DagsterInstance):
    run = begun_run(mailed, instance, MAIL.tables)
    instance.report_run_failed(run, "Exceeded maximum runtime of 10800 seconds.")
    _failed(mailed, instance, run)
    of_command = begun_run(mailed, instance, MAIL.tables, tags={COMMAND_TAG: "x"})
    instance.report_run_failed(of_command)
    _failed(mailed, instance, of_command)
    assert [(t["event"], t["run_id"]) for t in kept(mailed.folder / "told")] == [
        ("run_lost", run.run_id)
    ]


def _failed(work: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Let the sensor `failed_runs` see that a run failed."""
    (failure,) = instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE
    ).records
    event = failure.event_log_entry.dagster_event
    assert event
    context = dg.build_run_status_sensor_context("failed_runs", event, instance, run)
    build_definitions(work.settings).resolve_sensor_def("failed_runs")(context.for_run_failure())


@pytest.mark.exhaustive
def test_without_alerts_there_is_no_sensor_for_failed_runs(workspace: Workspace):
    sensors = {sensor.name for sensor in build_definitions(workspace.settings).sensors or ()}
    assert sensors == {"refresh_every_hour", "refresh_goes_on"}


def test_who_shares_the_lake_works_at_once_and_who_wants_it_alone_waits_before_those_who_come_later(
    tmp_path: Path,
):
    order: list[str] = []
    waits = {name: threading.Event() for name in ("publish", "later")}
    shared = {"publish": False, "later": True}

    def work(name: str) -> None:
        with lake_lock(tmp_path, exclusive=not shared[name], on_wait=waits[name].set):
            order.append(name)

    threads = {name: threading.Thread(target=work, args=[name]) for name in shared}
    with lake_lock(tmp_path, exclusive=False):
        with lake_lock(tmp_path, exclusive=False, on_wait=lambda: pytest.fail("both share it")):
            order.append("both")
        for name, thread in threads.items():
            thread.start()
            assert waits[name].wait(HUNG)
        order.append("end")
    for thread in threads.values():
        thread.join(HUNG)
    assert order == ["both", "end", "publish", "later"]


@pytest.mark.exhaustive
def test_a_build_waits_for_a_run_that_has_the_lake_and_says_for_whom(
    mailed: Workspace, instance: dg.DagsterInstance
):
    run = begun_run(mailed, instance, ["corpus_measures"])
    told: list[tuple[str, str | None]] = []
    has, go = threading.Event(), threading.Event()

    def other() -> None:
        with (
            living_run(mailed.settings.root, run.run_id),
            lake_lock(mailed.settings.root, exclusive=True),
        ):
            has.set()
            go.wait(HUNG)

    def tell(stage: str, partition: str | None, rows: int) -> None:
        told.append((stage, partition))
        if stage == WAITS:
            go.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert has.wait(HUNG)
    assert build(mailed.settings, instance, tell=tell).published
    thread.join()
    waited = f"run {run.run_id[:8]} of corpus_measures"
    assert told[:2] == [(WAITS, waited), (WAITS, None)]
    assert [stage for stage, _ in told].count(WAITS) == 2


@pytest.mark.exhaustive
def test_a_partition_whose_run_failed_and_that_is_right_again_is_not_shown_as_failed(
    built: Workspace,
):
    mails = built.folder / "mail" / "users" / "users.2004-01.mbox"
    with built.instance() as instance:
        planned(built.settings, instance)
        mails.rename(built.folder / "aside")
        assert not run_of_dagster(built, instance, READ, USERS, checked=False).success
        attempts = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations
        assert all(USERS in attempts(dg.AssetKey(table)) for table in READ)
        assert report_restored(instance, built.lake, planned(built.settings, instance)) == []
        assert USERS in attempts(dg.AssetKey("messages")), "the source is not there yet"
        (built.folder / "aside").rename(mails)
        before = _tags(instance)
        assert planned(built.settings, instance).is_empty
        assert not any(attempts(dg.AssetKey(table)) for table in READ)
        footer = built.lake.footer("messages", USERS)
        assert footer and _tags(instance) == before
        assert before["dagster/data_version"] == footer.content_hash
        assert report_restored(instance, built.lake, planned(built.settings, instance)) == []


def _tags(instance: dg.DagsterInstance) -> dict[str, str]:
    """The tags of the last materialization of the messages of users."""
    record = instance.get_latest_data_version_record(dg.AssetKey("messages"), partition_key=USERS)
    assert record and record.asset_materialization
    return dict(record.asset_materialization.tags or {})
