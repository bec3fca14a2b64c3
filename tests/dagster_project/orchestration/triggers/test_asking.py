"""Which runs the schedule and the sensors ask for, and which they leave to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import dagster as dg
import pytest

from assets.partitions import CONTEXT, MAIL
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import around_graph
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import COMMAND_TAG, FETCH_TAG, REFRESH, REFRESH_TAG, SCOPE_TAG, WHOLE
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.triggers.asking import refresh_requests
from dagster_project.orchestration.triggers.schedules import Seen
from dagster_project.resources.system.dagster_internals import request_backfill
from dagster_project.resources.system.locks import only_build
from tests.archives import Mail, Workspace, discussion
from tests.runs import begun_run, run_of_dagster

FEBRUARY, MARCH, USERS = "dev/dev.2004-02", "dev/dev.2004-03", "users/users.2004-01"
HOUR = datetime(2026, 3, 1, 2, tzinfo=UTC)
ID = "2026-03-01T02:00"
PARTITIONS = {REFRESH_TAG: ID, SCOPE_TAG: "partition"}
READ = {"attachments", "messages", "quarantine"}
Asked = tuple[set[str], dict[str, str]]


@pytest.fixture
def instance(built: Workspace) -> Iterator[dg.DagsterInstance]:
    with built.instance() as opened:
        yield opened


def asked_for(answer: object) -> list[Asked]:
    """Tables and tags of the runs that are asked for."""
    assert isinstance(answer, Sequence), answer
    return [({key.path[-1] for key in request.asset_selection}, request.tags) for request in answer]


def reason(answer: object) -> str:
    """Why no run is asked for."""
    assert isinstance(answer, dg.SkipReason), answer
    return answer.skip_message or ""


def at_the_hour(work: Workspace, instance: dg.DagsterInstance) -> object:
    schedule = build_definitions(work.settings).resolve_schedule_def(f"{REFRESH}_every_hour")
    with dg.build_schedule_context(instance, HOUR) as context:
        return schedule(context)


@pytest.mark.exhaustive
def test_nothing_is_asked_for_when_nothing_changed(built: Workspace, instance: dg.DagsterInstance):
    assert reason(at_the_hour(built, instance)).startswith("nothing changed")


@pytest.mark.exhaustive
def test_a_changed_file_is_asked_for_as_what_is_stale_of_its_partition(
    built: Workspace, instance: dg.DagsterInstance
):
    built.write("dev/dev.2004-03.mbox", [Mail(600, "A mail that came later.", "News")])
    ((tables, tags),) = asked_for(at_the_hour(built, instance))
    assert tables == set(MAIL.tables)
    assert tags == {**PARTITIONS, "dagster/partition": MARCH}
    assert MARCH in instance.get_dynamic_partitions("mail")


@pytest.mark.exhaustive
def test_neighbours_are_asked_for_as_a_range(built: Workspace, instance: dg.DagsterInstance):
    for month in (3, 4, 5):
        built.write(f"dev/dev.2004-0{month}.mbox", discussion(month * 100, 2, "planner"))
    ((_, tags),) = asked_for(at_the_hour(built, instance))
    ends = {"start": MARCH, "end": "dev/dev.2004-05"}
    assert tags == {**PARTITIONS, **{f"dagster/asset_partition_range_{k}": v for k, v in ends.items()}}


def test_a_source_that_is_missing_is_asked_for_so_that_its_run_says_so_and_others_too(
    built: Workspace, instance: dg.DagsterInstance
):
    for path in (built.folder / "mail" / "users").iterdir():
        path.unlink()
    built.write("dev/dev.2004-02.mbox", discussion(100, 3, "write-ahead log"))
    found = {tags["dagster/partition"]: tables for tables, tags in asked_for(at_the_hour(built, instance))}
    assert found == {FEBRUARY: set(MAIL.tables), USERS: READ}
    failed = run_of_dagster(built, instance, sorted(READ), USERS, checked=False)
    (step,) = [e for e in failed.all_events if e.is_step_failure]
    assert "source users" in str(step.step_failure_data.error)


def test_each_source_is_asked_for_where_none_can_be_read(built: Workspace, instance: dg.DagsterInstance):
    for file in (built.folder / "mail").rglob("*.mbox"):
        file.unlink()
    found = {tags["dagster/partition"]: tables for tables, tags in asked_for(at_the_hour(built, instance))}
    assert found == {min(instance.get_dynamic_partitions("mail")): READ, USERS: READ}


@pytest.mark.exhaustive
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_what_a_run_under_way_makes_is_not_asked_for_again(
    built: Workspace, instance: dg.DagsterInstance, status: dg.DagsterRunStatus
):
    built.write("dev/dev.2004-02.mbox", discussion(100, 3, "write-ahead log"))
    run = begun_run(built, instance, MAIL.tables, FEBRUARY, status=status)
    assert reason(at_the_hour(built, instance)) == f"run {run.run_id[:8]} and what follows it is under way"
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    ((_, tags),) = asked_for(at_the_hour(built, instance))
    assert tags["dagster/partition"] == MARCH


def test_what_a_backfill_makes_is_not_asked_for_again(built: Workspace, instance: dg.DagsterInstance):
    built.write("dev/dev.2004-02.mbox", discussion(100, 3, "write-ahead log"))
    ranges = {dg.AssetKey("messages"): [(FEBRUARY, FEBRUARY)]}
    request_backfill(instance, asset_definitions(built.settings), ranges, {})
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    ((_, tags),) = asked_for(at_the_hour(built, instance))
    assert tags["dagster/partition"] == MARCH


@pytest.mark.parametrize("loss", ["index", "partition"])
def test_an_index_that_is_not_right_is_made_of_the_whole_lake(
    built: Workspace, instance: dg.DagsterInstance, loss: str
):
    if loss == "index":
        (built.index / "CURRENT").unlink()
    else:
        (built.folder / "mail" / "dev" / "dev.2004-02.mbox").unlink()
    before, _ = around_graph(built.settings)
    assert asked_for(at_the_hour(built, instance)) == [(set(before), {REFRESH_TAG: ID, SCOPE_TAG: WHOLE})]
    assert (FEBRUARY in instance.get_dynamic_partitions("mail")) == (loss == "index")


def test_nothing_is_asked_for_while_a_command_builds(built: Workspace, instance: dg.DagsterInstance):
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    with only_build(built.settings.root):
        assert "from the command line is running" in reason(at_the_hour(built, instance))


@pytest.mark.exhaustive
def test_what_the_schedule_asks_for_publishes_what_changed(built: Workspace, instance: dg.DagsterInstance):
    built.write("dev/dev.2004-03.mbox", [Mail(600, "A mail that came later.", "News")])
    (partition,) = at_the_hour(built, instance)
    run_of_dagster(
        built, instance, [k.path[-1] for k in partition.asset_selection], MARCH, tags=partition.tags
    )
    (whole,) = at_the_hour(built, instance)
    run_of_dagster(built, instance, [k.path[-1] for k in whole.asset_selection], tags=whole.tags)
    assert built.column("SELECT count(*) FROM messages") == [22]
    assert built.plan().is_empty


def following(work: Workspace, instance: dg.DagsterInstance, cursor: str | None) -> tuple[object, str | None]:
    """What `refresh_goes_on` answers, and its cursor afterwards."""
    sensor = build_definitions(work.settings).resolve_sensor_def(f"{REFRESH}_goes_on")
    with dg.build_sensor_context(instance, cursor=cursor) as context:
        return sensor(context), context.cursor


@pytest.mark.exhaustive
def test_the_first_look_asks_for_nothing_and_neither_does_one_without_news(
    built: Workspace, instance: dg.DagsterInstance
):
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    answer, cursor = following(built, instance, None)
    assert reason(answer).startswith("nothing was fetched")
    assert cursor and Seen.model_validate_json(cursor).published
    answer, again = following(built, instance, cursor)
    assert reason(answer).startswith("nothing was fetched") and again == cursor


@pytest.mark.exhaustive
@pytest.mark.parametrize("refresh", [{REFRESH_TAG: ID}, {}], ids=["asked by the schedule", "by a person"])
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE])
def test_after_a_fetch_what_changed_is_asked_for(
    built: Workspace, instance: dg.DagsterInstance, status: dg.DagsterRunStatus, refresh: dict[str, str]
):
    _, cursor = following(built, instance, None)
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    run = begun_run(built, instance, sorted(READ), tags={FETCH_TAG: "all", **refresh}, status=status)
    answer, cursor = following(built, instance, cursor)
    ((_, tags),) = asked_for(answer)
    assert tags == {
        SCOPE_TAG: "partition",
        REFRESH_TAG: refresh.get(REFRESH_TAG, run.run_id[:8]),
        "dagster/partition": MARCH,
    }
    assert "nothing was fetched" in reason(following(built, instance, cursor)[0])


@pytest.mark.exhaustive
def test_every_run_of_a_refresh_is_followed(built: Workspace, instance: dg.DagsterInstance):
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    _, cursor = following(built, instance, None)
    keys = set()
    for _ in range(2):
        begun_run(
            built,
            instance,
            sorted(READ),
            tags={FETCH_TAG: "all", REFRESH_TAG: ID},
            status=dg.DagsterRunStatus.SUCCESS,
        )
        (request,), cursor = following(built, instance, cursor)
        keys.add(request.run_key)
    assert len(keys) == 2, "Dagster makes one run of a key"


@pytest.mark.exhaustive
def test_after_a_publish_what_waits_for_it_is_asked_for(workspace: Workspace):
    limits = {"slow_at_once_bytes": 0}
    workspace.configure(chunks={"slow_body_chars": 2000}, operations=limits)
    workspace.write(
        "dev.2004-01.mbox", [Mail(1), Mail(2, "\n\n".join(f"Attempt {n} stalls." for n in range(300)))]
    )
    with workspace.instance() as instance:
        plan = planned(workspace.settings, instance)
        (partition,) = plan.stale
        run_of_dagster(workspace, instance, plan.stale[partition], partition)
        _, cursor = following(workspace, instance, None)
        before, _ = around_graph(workspace.settings)
        run_of_dagster(workspace, instance, before, tags={REFRESH_TAG: ID})
        answer, cursor = following(workspace, instance, cursor)
        ((tables, tags),) = asked_for(answer)
        assert tables == {"slow_chunks", "slow_exclusions", "slow_terms"}
        assert tags == {**PARTITIONS, "dagster/partition": partition, "dagster/priority": "-1"}
        begun_run(workspace, instance, sorted(tables), partition)
        run_of_dagster(workspace, instance, ["search_index"], tags={REFRESH_TAG: ID})
        assert "nothing changed" in reason(following(workspace, instance, cursor)[0])


@pytest.mark.exhaustive
def test_what_a_command_made_it_also_goes_on_with(built: Workspace, instance: dg.DagsterInstance):
    _, cursor = following(built, instance, None)
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    built.build()
    begun_run(
        built,
        instance,
        sorted(READ),
        tags={FETCH_TAG: "all", COMMAND_TAG: "x"},
        status=dg.DagsterRunStatus.SUCCESS,
    )
    built.write("dev/dev.2004-04.mbox", [Mail(700)])
    assert "in the process of the command" in reason(following(built, instance, cursor)[0])


@pytest.mark.exhaustive
def test_beside_a_backfill_partitions_that_were_made_are_published(
    built: Workspace, instance: dg.DagsterInstance
):
    built.write("dev/dev.2004-03.mbox", [Mail(600)])
    planned(built.settings, instance)
    _, cursor = following(built, instance, None)
    run_of_dagster(built, instance, MAIL.tables, MARCH, tags=PARTITIONS)
    answer, _ = following(built, instance, cursor)
    assert reason(answer) == "what follows is asked for by the conditions of the assets"
    request_backfill(
        instance, asset_definitions(built.settings), {dg.AssetKey("messages"): [(USERS, USERS)]}, {}
    )
    before, _ = around_graph(built.settings)
    answer, _ = following(built, instance, cursor)
    assert asked_for(answer) == [(set(before), {REFRESH_TAG: ID, SCOPE_TAG: WHOLE})]
    run = begun_run(built, instance, MAIL.tables, FEBRUARY)
    assert reason(following(built, instance, cursor)[0]) == f"run {run.run_id[:8]} is under way"


@pytest.mark.exhaustive
def test_after_vectors_the_graph_is_asked_for_and_what_is_made_of_it_when_it_is_there(workspace: Workspace):
    workspace.put("notes/one.md", "# Compactor\n\nIt merges runs.\n\n# Planner\n\nIt orders runs.\n")
    workspace.configure({"name": "notes", "kind": "vault", "path": "notes"}, graph={"enabled": True})
    before, after = around_graph(workspace.settings)
    with workspace.instance() as instance:
        plan = planned(workspace.settings, instance)
        (partition,) = plan.stale
        run_of_dagster(workspace, instance, plan.stale[partition], partition)
        _, cursor = following(workspace, instance, None)
        run_of_dagster(workspace, instance, before, tags={REFRESH_TAG: ID})
        answer, _ = following(workspace, instance, cursor)
        ((tables, tags),) = asked_for(answer)
        assert tags == {**PARTITIONS, "dagster/partition": partition} and not tables & {*before, *after}
        run_of_dagster(workspace, instance, sorted(tables), partition)
        answer, _ = following(workspace, instance, cursor)
        assert asked_for(answer) == [(set(after), {REFRESH_TAG: ID, SCOPE_TAG: WHOLE})]
        run_of_dagster(workspace, instance, plan.stale[partition], partition)
        assert reason(following(workspace, instance, cursor)[0]).startswith("partitions were made since")


def test_context_is_asked_for_by_window(
    built: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    window = "chat/room.0001"
    instance.add_dynamic_partitions("conversations", [window])
    stale = {window: CONTEXT.tables}
    monkeypatch.setattr("dagster_project.orchestration.triggers.asking.stale_context", lambda *given: stale)
    wanted = {**PARTITIONS, "dagster/partition": window}
    monkeypatch.setattr("dagster_project.orchestration.partitions.sync_partitions", lambda *given: None)
    assert asked_for(refresh_requests(built.settings, instance, ID)) == [(set(CONTEXT.tables), wanted)]
