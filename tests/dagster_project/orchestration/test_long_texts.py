"""Very long texts: what is fast is published first, they after it, and then nothing is left to do."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from dagster_project.composition import stores
from dagster_project.orchestration.asset_graph import whole_phases
from dagster_project.orchestration.names import LATER
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.reconcile import next_requests
from dagster_project.system.locks import RUNS
from tests.archives import Mail, Workspace, differences, discussion
from tests.processes import Command, weft
from tests.runs import begun_run, run_of_dagster
from tests.transforms.mail.chunks.test_long_texts import tables
from transforms.mail.chunks.long_texts import AtOnce

pytestmark = pytest.mark.exhaustive

GIANT = "\n\n".join(
    f"The trace of attempt {n} shows a stall of {n * 7} microseconds." for n in range(60)
)
LANES = {"slow_body_chars": 2000}
AT_ONCE = {"slow_at_once_bytes": 0}
MONTH, OTHER = "dev.2004-01.mbox", "dev.2004-02.mbox"
PARTITION = "dev/2004-01"
WAITING = "SELECT doc_id FROM readiness WHERE waits_for = 'slow lane'"
LONG = ("message_chunks", "message_exclusions", "message_terms")
STALL = "SELECT count(*) FROM chunks WHERE text_lex LIKE '%stall%'"


def mails() -> list[Mail]:
    """A discussion, and a mail with a giant body between its mails, which one of them answers."""
    giant = Mail(50, GIANT, "Traces", reply_to=0)
    return [*discussion(0, 4, "compactor"), giant, Mail(51, "Thanks.", "Re: Traces", reply_to=50)]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two months, one with a giant mail, published by runs of Dagster's that leave its very long
    text for later.
    """
    work = Workspace(tmp_path_factory.mktemp("lanes") / "work").configure(
        chunks=LANES, operations=AT_ONCE
    )
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
    assert made.plan().slow == {PARTITION: LONG}
    with made.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("readiness"))
    assert event and event.asset_materialization
    assert event.asset_materialization.metadata["waiting"].value["slow lane"]["texts"] == 1


def test_both_lanes_publish_what_one_lane_does_and_nothing_is_made_twice(
    made: Workspace, tmp_path: Path
):
    result = made.build()
    assert result.slow == (PARTITION,) and not result.plan.stale
    assert result.published and result.published["changed_partitions"] == 1
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert made.build().as_json()["outcome"] == "UNCHANGED"

    made.write(
        MONTH, [*mails(), Mail(60, "One more remark.", "Traces"), Mail(61, GIANT + "!", "More")]
    )
    seen: list[tuple[int, list[str]]] = []

    def tell(stage: str, partition: str | None, rows: int) -> None:
        if stage == "search_index" and rows:
            seen.append((made.column(STALL)[0], made.column(WAITING)))

    beside = made.build(tell)
    assert beside.slow == (PARTITION,)
    (before, waiting), (after, _) = seen
    assert before > 1 and waiting == ["m61@example.org"], (
        "what could be found stays, what came waits"
    )
    assert after > before and made.column(WAITING) == []
    at_once = Workspace(tmp_path / "at-once").configure(chunks=LANES)
    for path in (made.folder / "mail").iterdir():
        at_once.write(path.name, path.read_bytes())
    assert at_once.build().slow == () and differences(made.index, at_once.index) == {}

    made.write(MONTH, discussion(0, 4, "compactor"))
    gone = made.build()
    assert gone.published and not gone.slow
    assert made.column(STALL) == [0] and made.column(WAITING) == []


@pytest.mark.parametrize(("model", "is_table"), [("weft", True), ("transformer", False)])
def test_a_table_leaves_less(
    model: str, is_table: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stores, "AT_ONCE", AtOnce(0, 0))
    settings = (
        Workspace(tmp_path / "work").configure(chunks=LANES, embedding={"model": model}).settings
    )
    (stage,) = (
        stage for stage in stores.stages_of_sources(settings) if stage.name == "chunk_messages"
    )
    nothing = SimpleNamespace(rows=lambda *_: None, is_current=False)
    made = stage.make(*tables(GIANT), settings.chunks, present=nothing)
    assert (made.metadata["waiting_bytes"] == 0) == is_table


@pytest.mark.parametrize("table", LONG)
def test_a_partition_that_waits_is_completed_whoever_makes_it_again(made: Workspace, table: str):
    """By hand one table of a partition can be made: what the others leave out is found by the plan."""
    with made.instance() as instance:
        run_of_dagster(made, instance, [table], PARTITION)
    made.build()
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1 and made.plan().is_empty


def test_what_is_stale_for_another_reason_does_not_make_long_texts_before_the_publish(
    made: Workspace,
):
    made.lake.path("message_terms", PARTITION).unlink()
    assert made.plan().stale == {PARTITION: ("message_terms",)} and not made.plan().slow
    assert made.build().slow == (PARTITION,) and made.column(STALL)[0] > 1


def test_very_long_texts_wait_behind_others_and_are_made_run_by_run(made: Workspace):
    with made.instance() as instance:
        asked, _ = next_requests(made.settings, instance, "one")
        assert not isinstance(asked, dg.SkipReason)
        (request,) = asked
        assert {key.path[-1] for key in request.asset_selection or ()} == set(LONG)
        assert (
            request.tags["dagster/partition"] == PARTITION
            and request.tags["dagster/priority"] == "-1"
        )
        begun_run(made, instance, LONG, "dev/2004-02", tags=LATER)
        skipped, _ = next_requests(made.settings, instance, "two")
        assert isinstance(skipped, dg.SkipReason) and "before other very long texts" in str(
            skipped.skip_message
        )


def test_a_kill_in_very_long_texts_is_told_by_the_next_build_which_ends_its_work(made: Workspace):
    command = Command(made.folder, "build", "--json", "--config", made.config)
    assert command.killed_at(made.settings.root / RUNS), "it was done before it was killed"
    done = weft(made.folder, "build", "--json", "--config", made.config)
    assert done.code == 0, done.err
    (found,) = done.told["interrupted"]
    assert set(found["tables"]) <= set(LONG)
    assert made.column(WAITING) == [] and made.column(STALL)[0] > 1
    assert made.plan().is_empty
    assert weft(made.folder, "build", "--json", "--config", made.config).told["interrupted"] == []
