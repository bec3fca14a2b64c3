"""Very long texts: what is fast is published first, they after it, and then nothing is left to do."""

import shutil
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets.partitions import SLOW
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import whole_phases
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.reconcile import next_requests
from dagster_project.system.locks import RUNS
from tests.archives import Mail, Workspace, differences, discussion
from tests.processes import Command, weft
from tests.runs import begun_run, run_of_dagster

pytestmark = pytest.mark.exhaustive

GIANT = "\n\n".join(f"The trace of attempt {n} shows a stall of {n * 7} microseconds." for n in range(60))
LANES = {"slow_body_chars": 2000}
AT_ONCE = {"slow_at_once_bytes": 0}
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
    """Two months, one with a giant mail, published by runs of Dagster's that leave its very long text for later."""
    work = Workspace(tmp_path_factory.mktemp("lanes") / "work").configure(chunks=LANES, operations=AT_ONCE)
    work.write(MONTH, mails())
    work.write(OTHER, discussion(100, 3, "planner"))
    with work.instance() as instance:
        for partition, tables in planned(work.settings, instance).stale.items():
            run_of_dagster(work, instance, tables, partition)
        run_of_dagster(work, instance, dict.fromkeys(sum(whole_phases(work.settings), [])))
    shutil.rmtree(work.settings.root / RUNS)
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
    assert not made.lake.partitions("slow_chunks")


@pytest.mark.parametrize(("bytes_more", "made_before"), [(-9, ()), (9, (PARTITION,))])
def test_what_waits_is_made_before_the_publish_if_it_is_little_beside_the_published_file(
    made: Workspace, bytes_more: int, made_before: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    size = (made.index / "CURRENT").resolve().stat().st_size
    share = (len(GIANT) + bytes_more) / size
    monkeypatch.setattr("dagster_project.orchestration.reconcile._LITTLE", 0)
    monkeypatch.setattr("dagster_project.orchestration.reconcile._SHARE_OF_INDEX", share)
    made.configure(chunks=LANES)
    made.write(OTHER, discussion(100, 4, "planner"))
    published: list[bool] = []

    def tell(stage: str, partition: str | None, rows: int) -> None:
        if stage == "search_index" and rows:
            published.append(made.column(STALL)[0] > 1)

    assert made.build(tell).slow == (PARTITION,)
    assert published == ([True] if made_before else [False, True])


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


def test_very_long_texts_have_a_pool_and_wait_behind_others(made: Workspace):
    definitions = build_definitions(made.settings)
    (stage, *_) = (
        d for d in definitions.assets or () if dg.AssetKey("slow_chunks") in getattr(d, "keys", ())
    )
    assert {op.pool for op in [stage.node_def]} == {"slow"}
    with made.instance() as instance:
        asked, _ = next_requests(made.settings, instance, "one")
        assert not isinstance(asked, dg.SkipReason)
        (request,) = asked
        assert {key.path[-1] for key in request.asset_selection or ()} == set(SLOW.tables)
        assert request.tags["dagster/partition"] == PARTITION and request.tags["dagster/priority"] == "-1"
        begun_run(made, instance, SLOW.tables, PARTITION)
        assert isinstance(next_requests(made.settings, instance, "two")[0], dg.SkipReason)


def test_a_kill_in_very_long_texts_is_told_by_the_next_build_which_ends_its_work(made: Workspace):
    command = Command(made.folder, "build", "--json", "--config", made.config)
    assert command.killed_at(made.settings.root / RUNS), "it was done before it was killed"
    done = weft(made.folder, "build", "--json", "--config", made.config)
    assert done.code == 0, done.err
    (found,) = done.told["interrupted"]
    assert set(found["tables"]) <= set(SLOW.tables)
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert weft(made.folder, "build", "--json", "--config", made.config).told["interrupted"] == []
