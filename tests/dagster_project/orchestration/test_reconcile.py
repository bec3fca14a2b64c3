"""What runs next is said by the plan and by Dagster's runs alone: in order, nothing twice, nothing
that is current.
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import CONTEXT, CONVERSATIONS, DOCUMENTS, MAIL
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import (
    LATER,
    PHASE_TAG,
    REFRESH_TAG,
    WHOLE_LAKE,
)
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.plan import Plan
from dagster_project.orchestration.reconcile import UNCHANGED, Runs, reconcile, runs_of_dagster
from dagster_project.orchestration.triggers.schedules import HAS_BEGUN
from dagster_project.orchestration.work import Phase
from dagster_project.system.dagster_internals import request_backfill
from dagster_project.system.locks import only_build
from tests.archives import Mail, Workspace, discussion
from tests.daemon import HOUR, Daemon
from tests.runs import begun_run, run_of_dagster

JANUARY, FEBRUARY, MARCH = (f"dev/2004-0{month}" for month in (1, 2, 3))
USERS = "users/2004-01"
PAGES, WINDOW = "notes/all", "chat/room.0001"
READ = ("attachments", "messages", "quarantine")
MAILS = {JANUARY: MAIL.tables, FEBRUARY: MAIL.tables}
BLOCKS = {JANUARY: ("message_blocks",)}


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tuple[Workspace, dg.DagsterInstance]]:
    """Settings, and an instance that knows some partitions."""
    work = Workspace(tmp_path).configure({"name": "notes", "kind": "vault", "path": "notes"})
    with dg.DagsterInstance.ephemeral() as instance:
        for source_type, keys in (
            (MAIL, [JANUARY, FEBRUARY, MARCH]),
            (DOCUMENTS, [PAGES]),
            (CONVERSATIONS, [WINDOW]),
        ):
            instance.add_dynamic_partitions(source_type.partitions, keys)
        yield work, instance


def run(tables: tuple[str, ...], **tags: str) -> dg.DagsterRun:
    keys = frozenset(dg.AssetKey(table) for table in tables)
    return dg.DagsterRun(
        "job", asset_selection=keys, tags={k.replace("__", "/"): v for k, v in tags.items()}
    )


RELATIONS, PUBLISH = ("memberships", "embeddings"), ("embeddings", "search_index")
WHOLE = {"publish": True, "whole": RELATIONS}
CHAT, LONG = {WINDOW: CONTEXT.tables}, {JANUARY: ("message_chunks",)}
ALL = [("partitions", JANUARY, FEBRUARY)]
ONE = [("partitions", FEBRUARY, FEBRUARY)]
RELATES = [("relations", None, None)]
GOES, ASIDE = (run(MAIL.tables),), (run(MAIL.tables, dagster__priority="-1"),)
BOTH = {("partitions", JANUARY, ""), ("partitions", FEBRUARY, "")}
CASES = {
    "nothing": ({}, {}, []),
    "stale partitions, neighbours together": ({"stale": MAILS, **WHOLE}, {}, ALL),
    "those that need other tables apart": (
        {"stale": MAILS | BLOCKS},
        {},
        [("partitions", JANUARY, JANUARY), *ONE],
    ),
    "none that a run makes": (
        {"stale": MAILS},
        {"making": {("messages", JANUARY)}, "going": GOES},
        ONE,
    ),
    "one whose long texts are made": (
        {"stale": MAILS},
        {"making": {("message_chunks", JANUARY)}, "going": ASIDE},
        ONE,
    ),
    "none that a backfill makes": ({"stale": MAILS}, {"backfilled": {JANUARY, FEBRUARY}}, []),
    "nothing whole while a partition is made": (WHOLE, {"going": GOES}, []),
    "the whole lake beside very long texts": (WHOLE, {"going": ASIDE}, RELATES),
    "what is stale once more was tried": ({"stale": MAILS, **WHOLE}, {"tried": BOTH}, RELATES),
    "the index after what it is made of": (
        {"publish": True, "whole": PUBLISH},
        {},
        [("publish", None, None)],
    ),
    "the whole lake of another state": (
        {**WHOLE, "state": "s"},
        {"tried": {("relations", None, "")}},
        RELATES,
    ),
    "not of the same": ({**WHOLE, "state": "s"}, {"tried": {("relations", None, "s")}}, []),
    "long texts after the publish": ({**WHOLE, "slow": LONG}, {}, RELATES),
    "long texts one run after the other": ({"slow": LONG}, {"going": ASIDE}, []),
    "context and long texts at last": (
        {"context": CHAT, "slow": LONG},
        {},
        [("context", WINDOW, WINDOW), ("slow", JANUARY, JANUARY)],
    ),
    "context once for a state": (
        {"context": CHAT, "state": "s"},
        {"tried": {("context", WINDOW, "s")}},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_phase_with_something_left_is_next(
    empty: tuple[Workspace, dg.DagsterInstance], case: str
):
    work, instance = empty
    given, runs, expected = CASES[case]
    plan = Plan((), vanished=(), **{"stale": {}, "publish": False, **given})
    works, reason = reconcile(work.settings, instance, plan, Runs(**runs))
    assert [(work.phase, work.first, work.last) for work in works] == expected
    assert all(work.later == (work.phase == "slow") for work in works)
    assert (reason == UNCHANGED) == (case in ("nothing", "context once for a state"))


@pytest.fixture
def daemon(built: Workspace, instance: dg.DagsterInstance) -> Daemon:
    return Daemon(built, instance)


def later_mail(work: Workspace, text: str = "A mail that came later.") -> None:
    work.write("dev/dev.2004-03.mbox", [Mail(600, text, "News")])


def jobs(runs: list[dg.DagsterRun]) -> list[str]:
    return [run.job_name for run in runs]


def test_an_hour_begins_a_refresh_if_something_changed_and_nobody_builds(daemon: Daemon):
    assert daemon.hour() == [] and daemon.why == UNCHANGED
    later_mail(daemon.work)
    with only_build(daemon.work.settings.root):
        assert daemon.hour() == [] and "from the command line is running" in daemon.why
    going = begun_run(daemon.work, daemon.instance, MAIL.tables, JANUARY)
    assert daemon.hour() == [] and "is under way" in daemon.why
    daemon.instance.report_run_canceled(going)
    (run,) = daemon.hour()
    assert (run.job_name, run.tags["dagster/partition"]) == ("mail_partitions", MARCH)
    daemon.hours -= 1
    assert daemon.hour() == [] and daemon.why == HAS_BEGUN


def test_a_published_version_is_reported_and_evaluated_once(
    built: Workspace, instance: dg.DagsterInstance
):
    asked = built.settings.evaluation.model_copy(update={"queries": ("queries.yaml",)})
    definitions = build_definitions(built.settings.model_copy(update={"evaluation": asked}))
    schedules = [
        definitions.resolve_schedule_def(f"{name}_every_day") for name in ("report", "evaluate")
    ]

    def ticks() -> list[bool]:
        with dg.build_schedule_context(instance, HOUR) as context:
            return [isinstance(schedule(context), dg.RunRequest) for schedule in schedules]

    assert ticks() == [True, True]
    for asset in ("operations_report", "evaluation_report"):
        instance.report_runless_asset_event(dg.AssetMaterialization(asset))
    assert ticks() == [False, False]
    (built.index / "CURRENT").resolve().touch()
    assert ticks() == [True, True]
    with pytest.raises(dg.DagsterInvariantViolationError):
        build_definitions(built.settings).resolve_schedule_def("evaluate_every_day")


@pytest.mark.exhaustive
def test_every_run_of_a_refresh_has_a_name_and_the_tag_of_its_refresh(daemon: Daemon):
    later_mail(daemon.work)
    (first,) = daemon.hour()
    made = daemon.rest()
    assert made == [("mail_partitions", (MARCH,)), (WHOLE_LAKE, ())]
    runs = daemon.instance.get_runs(limit=2)
    assert {run.tags[REFRESH_TAG] for run in runs} == {first.tags[REFRESH_TAG]}
    assert [run.tags.get(PHASE_TAG) for run in runs] == ["relations", "partitions"]
    assert daemon.work.plan().is_empty


def test_a_partition_made_again_with_the_same_content_sets_off_nothing(daemon: Daemon):
    run_of_dagster(daemon.work, daemon.instance, MAIL.tables, JANUARY)
    assert daemon.look() == [] and daemon.why == UNCHANGED
    assert daemon.look() == [] and daemon.why.startswith("no run has ended since")
    daemon.restart()
    assert daemon.look() == [] and daemon.why == UNCHANGED, "a memory that is lost costs a look"


@pytest.mark.exhaustive
def test_a_partition_made_by_hand_with_other_content_sets_off_one_run_over_the_whole_lake(
    daemon: Daemon,
):
    """It is completed; other partitions that are stale wait for the next refresh: nobody asked for
    them.
    """
    daemon.work.write("dev/dev.2004-01.mbox", discussion(0, 7, "compactor"))
    daemon.work.write("users/users.2004-02.mbox", discussion(500, 2, "editor"))
    run_of_dagster(daemon.work, daemon.instance, ["messages"], JANUARY)
    assert daemon.rest() == [("mail_partitions", (JANUARY,)), (WHOLE_LAKE, ())]
    assert daemon.work.column("SELECT count(*) FROM messages") == [22]
    daemon.hour()
    assert [job for job, _ in daemon.rest()] == ["mail_partitions", WHOLE_LAKE]
    assert daemon.work.plan().is_empty


def test_a_source_that_is_missing_gets_a_run_that_says_so_and_others_get_theirs(daemon: Daemon):
    for path in (daemon.work.folder / "mail" / "users").iterdir():
        path.unlink()
    daemon.work.write("dev/dev.2004-02.mbox", discussion(100, 3, "write-ahead log"))
    daemon.begin_refresh()
    daemon.run()
    asked = {run.tags["dagster/partition"]: run for run in daemon.look()}
    assert {p: len(run.asset_selection or ()) for p, run in asked.items()} == {
        FEBRUARY: len(MAIL.tables),
        USERS: len(READ),
    }
    (refresh,) = {run.tags[REFRESH_TAG] for run in asked.values()}
    failed = daemon.run(1, checked=False)
    (step,) = [e for e in failed.all_events if e.is_step_failure]
    assert step.step_failure_data.error
    assert step.step_failure_data.error.message.partition(": ")[2].startswith("source users"), (
        "the remedy leads"
    )
    daemon.run()
    whole = daemon.look()
    assert jobs(whole) == [WHOLE_LAKE], (
        "it is not asked for again, and keeps no other from the index"
    )
    assert whole[0].tags[REFRESH_TAG] == refresh and whole[0].tags[PHASE_TAG] == "relations"


def test_each_source_gets_a_run_where_none_can_be_read(daemon: Daemon):
    for file in (daemon.work.folder / "mail").rglob("*.mbox"):
        file.unlink()
    assert {run.tags["dagster/partition"] for run in daemon.hour()} == {JANUARY, USERS}


def test_the_work_of_dagster_is_known_by_runs_and_backfills(
    built: Workspace, instance: dg.DagsterInstance
):
    planned(built.settings, instance)
    queued = dg.DagsterRunStatus.QUEUED
    going = begun_run(
        built, instance, MAIL.tables, FEBRUARY, status=queued, tags={REFRESH_TAG: "r"}
    )
    begun_run(built, instance, MAIL.tables[4:], USERS, tags=LATER)
    ranges = {dg.AssetKey("messages"): [(JANUARY, JANUARY)]}
    request_backfill(instance, asset_definitions(built.settings), ranges, {})
    runs = runs_of_dagster(built.settings, instance, "r")
    assert runs.taken(["messages"]) == {FEBRUARY, JANUARY} and runs.taken(["message_chunks"]) == {
        FEBRUARY,
        USERS,
        JANUARY,
    }
    assert runs.awaited and runs.awaited.run_id == going.run_id
    assert not runs.tried, "a run that a person launched is of no phase"


@pytest.mark.parametrize("loss", ["index", "partition"])
def test_an_index_that_is_not_right_is_published(daemon: Daemon, loss: str):
    if loss == "index":
        (daemon.work.index / "CURRENT").unlink()
    else:
        (daemon.work.folder / "mail" / "dev" / "dev.2004-02.mbox").unlink()
    daemon.begin_refresh()
    daemon.run()
    (whole,) = daemon.look()
    assert whole.job_name == WHOLE_LAKE
    assert whole.tags[PHASE_TAG] == (Phase.PUBLISH if loss == "index" else Phase.RELATIONS)
    assert (FEBRUARY in daemon.instance.get_dynamic_partitions("mail")) == (loss == "index")


def test_beside_a_backfill_what_others_made_is_published_and_its_own_at_its_end(
    built: Workspace, instance: dg.DagsterInstance
):
    daemon = Daemon(built, instance)
    keys = [dg.AssetKey(table) for table in MAIL.tables]
    ranges = {key: [(JANUARY, JANUARY)] for key in keys}
    backfill = request_backfill(instance, asset_definitions(built.settings), ranges, {})
    built.write("dev/dev.2004-01.mbox", discussion(0, 7, "compactor"))
    run_of_dagster(built, instance, MAIL.tables, JANUARY, tags={"dagster/backfill": backfill})
    assert daemon.look() == [] and daemon.why == "the end of a backfill is published"
    built.write("users/users.2004-01.mbox", discussion(200, 7, "shell"))
    run_of_dagster(built, instance, MAIL.tables, USERS)
    (beside,) = daemon.look()
    assert beside.job_name == WHOLE_LAKE
    instance.report_run_canceled(beside)
    built.write(
        "users/users.2004-01.mbox",
        [*discussion(200, 6, "shell"), *discussion(300, 3, "garbage collector")],
    )
    run_of_dagster(built, instance, MAIL.tables, USERS)
    assert daemon.look() == []
    found = instance.get_backfill(backfill)
    assert found
    instance.update_backfill(found.with_status(type(found.status).CANCELED))
    assert jobs(daemon.look()) == [WHOLE_LAKE]
