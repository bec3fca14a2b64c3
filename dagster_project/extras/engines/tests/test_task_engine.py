"""What tasks make is what a run makes; Dagster hears of it, and of what fails; a lake that tasks do
not see is refused.
"""

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import MAIL
from assets.protocols.engine import Outcome
from dagster_project.extras.engines.task import run_task, written_tasks
from dagster_project.extras.engines.task_engine import TaskEngine
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.partitions import partition_runs, planned, report_restored
from dagster_project.orchestration.runs import run_here
from tests.archives import Workspace, lake_hashes, two_lists
from transforms.errors import EngineError, WeftError

LARGEST = 10_000
"""Bytes of a partition that may pass through an engine."""
PARTITIONS = ["dev/2004-01", "dev/2004-02", "users/2004-01"]


class InThisProcess:
    """Runs tasks one after the other, each as far from the run that asks as pickled bytes are."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, place: str, count: int) -> Iterator[Outcome]:
        for number in range(count):
            sent, back = (
                pickle.dumps((run_task, place, number)),
                pickle.dumps(run_task(place, number)),
            )
            self.sizes.append(len(sent) + len(back))
            yield pickle.loads(back)

    def close(self) -> None:
        pass


def made(work: Workspace, instance: dg.DagsterInstance, cluster: InThisProcess) -> None:
    """Make what is stale of the partitions of a workspace in tasks."""
    definitions = asset_definitions(work.settings, {"engine": TaskEngine(work.settings, cluster)})
    for part in partition_runs(instance, planned(work.settings, instance).stale, limit=1000):
        run_here(definitions, instance, part, {})


def versions(instance: dg.DagsterInstance, table: str) -> dict[str, str | None]:
    """The data version that Dagster has of each partition of a table."""
    records = {
        p: instance.get_latest_data_version_record(dg.AssetKey(table), partition_key=p)
        for p in PARTITIONS
    }
    found = {p: record.asset_materialization for p, record in records.items() if record}
    return {p: (event.tags or {})["dagster/data_version"] for p, event in found.items() if event}


@pytest.mark.exhaustive
def test_tasks_make_what_a_run_makes_and_dagster_hears_of_it(built_once: Workspace, tmp_path: Path):
    work, cluster = two_lists(tmp_path / "work"), InThisProcess()
    with work.instance() as instance:
        made(work, instance, cluster)
        assert len(cluster.sizes) == len(PARTITIONS) and max(cluster.sizes) < LARGEST
        for table in MAIL.tables:
            stored = {
                p: footer.content_hash for p in PARTITIONS if (footer := work.lake.footer(table, p))
            }
            assert versions(instance, table) == stored and set(stored) == set(PARTITIONS)
    hashes = lake_hashes(built_once)
    assert {place: hashes[place] for place in lake_hashes(work)} == lake_hashes(work)
    assert not work.plan().stale
    assert not list(Path(str(work.lake.base)).rglob("*.tasks"))


def test_a_failed_task_names_source_partition_stage_and_reason_and_leaves_the_others(
    tmp_path: Path,
):
    work, cluster = two_lists(tmp_path / "work"), InThisProcess()
    in_the_way = Path(str(work.lake.base)) / "message_blocks" / "dev"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    with work.instance() as instance:
        with pytest.raises(
            WeftError, match=r"partition dev/2004-01, stage message_blocks, on \S+: \w+Error: "
        ) as fault:
            made(work, instance, cluster)
        assert fault.value.step == "message_blocks"
        assert set(versions(instance, "messages")) == set(PARTITIONS)
        assert set(versions(instance, "message_blocks")) == set(PARTITIONS[2:])
        plan = planned(work.settings, instance)
        assert set(plan.stale) == set(PARTITIONS[:2])
        assert set(versions(instance, "message_terms")) == set(PARTITIONS[2:]), (
            "reported when it was found"
        )
        in_the_way.unlink()
        made(work, instance, cluster)
        assert not work.plan().stale
        assert report_restored(instance, work.lake, plan) == []


@pytest.mark.exhaustive
def test_a_repeated_task_writes_the_same_bytes(built: Workspace):
    before = lake_hashes(built)
    with written_tasks(built.settings, MAIL.tables, PARTITIONS[:1]) as place:
        first, second = run_task(place, 0), run_task(place, 0)
    assert {n: t.content_hash for n, t in first.tables.items()} == {
        n: t.content_hash for n, t in second.tables.items()
    }
    assert lake_hashes(built) == before


def test_a_machine_that_does_not_see_the_lake_is_refused_with_the_remedy(built: Workspace):
    with written_tasks(built.settings, MAIL.tables, PARTITIONS) as place:
        elsewhere = Path(place)
    with pytest.raises(
        EngineError, match=rf"does not see the lake at {elsewhere.parent}: set storage\.lake"
    ):
        run_task(str(elsewhere), 0)


@pytest.mark.exhaustive
def test_a_run_with_settings_of_its_own_makes_its_partitions_itself(built: Workspace):
    cluster = InThisProcess()
    definitions = asset_definitions(built.settings, {"engine": TaskEngine(built.settings, cluster)})
    job = definitions.resolve_implicit_global_asset_job_def()
    with built.instance() as instance:
        planned(built.settings, instance)
        assert job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey("message_terms")],
            partition_key=PARTITIONS[0],
            run_config={"ops": {"message_terms": {"config": {"stemmer": "german"}}}},
        ).success
    assert not cluster.sizes and list(built.plan().stale) == PARTITIONS[:1]


def test_what_a_task_imports_has_no_dagster():
    code = "import sys, dagster_project.extras.engines.task; sys.exit('dagster' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_partition_of_a_source_that_is_gone_fails_as_such(built: Workspace):
    with written_tasks(built.settings, MAIL.tables, ["gone/2004-01", *PARTITIONS]) as place:
        shutil.rmtree(built.folder / "mail" / "users")
        gone, *rest = (run_task(place, number) for number in range(4))
    assert [bool(outcome.fault) for outcome in (gone, *rest)] == [True, False, False, True]
