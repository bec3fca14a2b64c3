"""The slow lane: what is fast is published first, what is slow after it, and then nothing is left to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets.partitions import SLOW
from dagster_project.build import build
from dagster_project.definitions import build_definitions, refresh_job
from dagster_project.locks import only_lane
from dagster_project.plan import sync_partitions
from tests.archives import Mail, Workspace, differences, discussion

GIANT = "\n\n".join(f"The trace of attempt {n} shows a stall of {n * 7} microseconds." for n in range(60))
LANES = {"slow_body_chars": 2000}
AT_ONCE = {"slow_at_once_bytes": 0}
OFF = {"slow_body_chars": 10**9}
MONTH, OTHER = "dev.2004-01.mbox", "dev.2004-02.mbox"
UNIT = "dev/dev.2004-01"
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
        assert build(work.settings, instance, slow=False).published
    return work


def test_what_is_fast_is_published_and_what_waits_is_told(made: Workspace):
    assert made.column("SELECT count(*) FROM messages") == [9]
    assert made.column(STALL) == [0]
    assert made.column(WAITING) == ["m50@example.org"]
    reasons = "SELECT byte_end - byte_start FROM exclusions WHERE reason = 'slow_lane' AND doc_id = 'm50@example.org'"
    assert made.column(reasons) == [len(GIANT) + 1]
    assert made.column("SELECT waiting FROM readiness_by_source") == [1]
    assert not made.lake.partitions("slow_chunks")
    assert made.plan().slow == {UNIT: SLOW.tables}
    with made.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("readiness"))
    assert event and event.asset_materialization
    assert event.asset_materialization.metadata["waiting"].value["slow lane"]["texts"] == 1


def test_both_lanes_publish_what_one_lane_does_and_nothing_is_made_twice(made: Workspace, tmp_path: Path):
    result = made.build()
    assert result.slow == (UNIT,) and not result.plan.stale
    assert result.published and result.published["changed_partitions"] == 1
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert made.build().as_json()["outcome"] == "UNCHANGED"

    written = made.lake.path("slow_chunks", UNIT).stat().st_mtime_ns
    made.write(MONTH, [*mails(), Mail(60, "One more remark on stall times.", "Traces")])
    beside = made.build()
    assert beside.published and not beside.slow
    assert made.lake.path("slow_chunks", UNIT).stat().st_mtime_ns == written
    assert differences(*(_without_lanes(work, tmp_path) for work in (made, _at_once(made, tmp_path)))) == {}

    made.write(MONTH, discussion(0, 4, "compactor"))
    gone = made.build()
    assert gone.published and not gone.slow
    assert made.column(STALL) == [0] and made.column(WAITING) == []
    with made.instance() as instance:
        sync_partitions(instance, made.plan(), made.lake)
    assert not made.lake.partitions("slow_chunks")


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
    job = definitions.resolve_job_def(refresh_job(SLOW))
    assert job.tags["dagster/priority"] == "-1" and job.tags["weft/lane"] == "slow"
    steps = [node.definition for node in job.graph.nodes]
    assert {step.pool for step in steps} == {"slow"}
