"""The slow lane: what is fast is published first, what is slow after it, and then nothing is left to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from dagster_project.orchestration.recovery import build_in_progress, mark

from assets.partitions import SLOW
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.build import BuildOptions, build
from dagster_project.orchestration.names import BACKFILL, REFRESH, refresh_job
from dagster_project.orchestration.plan import sync_partitions
from dagster_project.resources.system.locks import only_build, only_lane
from tests.archives import Mail, Workspace, differences, discussion
from tests.processes import Command, weft

GIANT = "\n\n".join(f"The trace of attempt {n} shows a stall of {n * 7} microseconds." for n in range(60))
LANES = {"slow_body_chars": 2000}
AT_ONCE = {"slow_at_once_bytes": 0, "slow_at_once_share": 0, "slow_at_first_share": 0}
OFF = {"slow_body_chars": 10**9}
MONTH, OTHER = "dev.2004-01.mbox", "dev.2004-02.mbox"
PARTITION = "dev/dev.2004-01"
WAITING = "SELECT doc_id FROM readiness WHERE waits_for = 'slow lane'"
STALL = "SELECT count(*) FROM chunks WHERE text_lex LIKE '%stall%'"


def mails() -> list[Mail]:
    """A discussion, and a mail with a giant body between its mails, which one of them answers."""
    giant = Mail(50, GIANT, "Traces", reply_to=0)
    return [*discussion(0, 4, "compactor"), giant, Mail(51, "Thanks.", "Re: Traces", reply_to=50)]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two months, one with a giant mail, after a build without the slow lane."""
    work = Workspace(tmp_path_factory.mktemp("lanes") / "work").configure(chunks=LANES, operations=AT_ONCE)
    work.write(MONTH, mails())
    work.write(OTHER, discussion(100, 3, "planner"))
    with work.instance() as instance:
        assert build(work.settings, instance, BuildOptions(slow=False)).published
    return work


def test_what_is_fast_is_published_and_what_waits_is_told(made: Workspace):
    assert made.column("SELECT count(*) FROM messages") == [9]
    assert made.column(STALL) == [0]
    assert made.column(WAITING) == ["m50@example.org"]
    reasons = "SELECT byte_end - byte_start FROM exclusions WHERE reason = 'slow_lane' AND doc_id = 'm50@example.org'"
    assert made.column(reasons) == [len(GIANT) + 1]
    assert made.column("SELECT waiting FROM readiness_by_source") == [1]
    assert not made.lake.partitions("slow_chunks")
    assert made.plan().slow == {PARTITION: SLOW.tables}
    with made.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("readiness"))
    assert event and event.asset_materialization
    assert event.asset_materialization.metadata["waiting"].value["slow lane"]["texts"] == 1


@pytest.mark.exhaustive
def test_both_lanes_publish_what_one_lane_does_and_nothing_is_made_twice(made: Workspace, tmp_path: Path):
    result = made.build()
    assert result.slow == (PARTITION,) and not result.plan.stale
    assert result.published and result.published["changed_partitions"] == 1
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert made.build().as_json()["outcome"] == "UNCHANGED"

    written = made.lake.path("slow_chunks", PARTITION).stat().st_mtime_ns
    made.write(MONTH, [*mails(), Mail(60, "One more remark on stall times.", "Traces")])
    beside = made.build()
    assert beside.published and not beside.slow
    assert made.lake.path("slow_chunks", PARTITION).stat().st_mtime_ns == written
    assert differences(*(_without_lanes(work, tmp_path) for work in (made, _at_once(made, tmp_path)))) == {}

    made.write(MONTH, discussion(0, 4, "compactor"))
    gone = made.build()
    assert gone.published and not gone.slow
    assert made.column(STALL) == [0] and made.column(WAITING) == []
    with made.instance() as instance:
        sync_partitions(instance, made.plan(), made.lake)
    assert not made.lake.partitions("slow_chunks")


@pytest.mark.parametrize(("bytes_more", "made_before"), [(-9, ()), (9, (PARTITION,))])
def test_what_waits_is_made_before_the_publish_if_it_is_little_beside_the_published_file(
    made: Workspace, bytes_more: int, made_before: tuple[str, ...]
):
    size = (made.index / "CURRENT").resolve().stat().st_size
    share = (len(GIANT) + bytes_more) / size
    made.configure(chunks=LANES, operations=AT_ONCE | {"slow_at_once_share": share})
    made.write(OTHER, discussion(100, 4, "planner"))
    with made.instance() as instance:
        assert build(made.settings, instance, BuildOptions(slow=False)).slow == made_before
    assert (made.column(STALL)[0] > 1) == bool(made_before)


def _at_once(work: Workspace, folder: Path) -> Workspace:
    """The same mail, built with all thresholds out of reach."""
    made = Workspace(folder / "at-once").configure(chunks=OFF)
    for path in (work.folder / "mail").iterdir():
        made.write(path.name, path.read_bytes())
    made.build()
    return made


def _without_lanes(work: Workspace, folder: Path) -> Path:
    """A copy of the published file without what names lanes, settings and hashes of partitions."""
    copy = folder / f"{work.folder.name}-compared"
    copy.mkdir()
    shutil.copy((work.index / "CURRENT").resolve(), copy / "CURRENT")
    with duckdb.connect(str(copy / "CURRENT")) as connection:
        connection.execute("ALTER TABLE chunks DROP COLUMN lane")
        for table in ("manifest", "partitions"):
            connection.execute(f"DROP TABLE {table}")
    return copy


def test_a_build_leaves_the_slow_lane_to_the_process_that_is_at_it(made: Workspace):
    with only_lane(made.settings.root, SLOW.name):
        result = made.build()
    assert result.slow == () and result.published is None
    assert made.column(WAITING) == ["m50@example.org"]


def test_the_slow_lane_has_a_pool_and_a_job_of_lower_priority(made_once: Workspace):
    definitions = build_definitions(made_once.settings)
    job = definitions.resolve_job_def(refresh_job(SLOW.name))
    assert job.tags["dagster/priority"] == "-1" and job.tags["weft/lane"] == "slow"
    steps = [node.definition for node in job.graph.nodes]
    assert {step.pool for step in steps} == {"slow"}


def test_a_kill_in_the_slow_lane_is_told_by_the_next_build_which_ends_its_work(made: Workspace):
    command = Command(made.folder, "build", "--json", "--config", made.config)
    assert command.killed_at(mark(made.settings.root, SLOW.name)), "the lane was done before it was killed"
    done = weft(made.folder, "build", "--json", "--config", made.config)
    assert done.code == 0, done.err
    assert [found["work"] for found in done.told["interrupted"]] == [SLOW.name]
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert weft(made.folder, "build", "--json", "--config", made.config).told["interrupted"] == []


def test_a_killed_backfill_is_told_by_the_next_build_unless_it_is_another_that_is_alive(made_once: Workspace):
    root = made_once.settings.root
    left = mark(root, BACKFILL)
    left.write_text("2004-01-05T10:00:00+00:00")
    with made_once.instance() as instance:
        with (
            only_lane(root, BACKFILL),
            only_build(root),
            build_in_progress(made_once.settings, instance) as found,
        ):
            assert found == () and left.exists()
        with only_build(root), build_in_progress(made_once.settings, instance) as found:
            assert [str(one) for one in found] == [
                "the backfill of 2004-01-05T10:00:00+00:00 was ended before it was done: what it had made is kept"
            ]
    assert not left.exists()


def sensed(work: Workspace) -> dg.RunRequest | dg.SkipReason:
    """What the sensor `slow_lane_waits` answers to a run of `refresh` that succeeded."""
    definitions = build_definitions(work.settings)
    with work.instance() as instance:
        run = instance.create_run_for_job(definitions.resolve_job_def(REFRESH))
        event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, job_name=REFRESH)
        context = dg.build_run_status_sensor_context("slow_lane_waits", event, instance, run)
        return definitions.resolve_sensor_def("slow_lane_waits")(context)


def test_the_sensor_asks_for_the_slow_lane_when_something_waits_for_it_and_nobody_is_at_it(made: Workspace):
    asked = sensed(made)
    assert isinstance(asked, dg.RunRequest) and asked.tags["weft/waiting_units"] == "1"
    with only_lane(made.settings.root, SLOW.name):
        busy = sensed(made)
    assert isinstance(busy, dg.SkipReason) and busy.skip_message == "another process makes what waits"
    made.build()
    idle = sensed(made)
    assert isinstance(idle, dg.SkipReason) and idle.skip_message == "nothing waits for the slow lane"
