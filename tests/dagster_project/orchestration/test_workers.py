"""Partitions that processes make side by side are those that one makes, faults come back, and the
processes end.
"""

import multiprocessing
from pathlib import Path

import pytest

from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.work import Work
from dagster_project.orchestration.workers import most_of_run, workers_for
from dagster_project.system.long_work import CountedProgress
from tests.archives import Workspace, differences, lake_hashes, two_lists
from tests.timing import until
from transforms.errors import WeftError

BESIDE = {"tasks": 2}


@pytest.mark.exhaustive
def test_what_is_made_side_by_side_is_what_one_process_makes(
    built_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    work = two_lists(tmp_path / "work", engine=BESIDE)
    steps: list[tuple[str, str | None, int]] = []
    progress = CountedProgress(lambda *step: steps.append(step))
    with work.instance() as instance:
        plan = planned(work.settings, instance)
        with workers_for(work.settings, instance, progress, plan.partitions) as workers:
            assert workers is not None
            most = most_of_run(workers, len(plan.stale))
            workers.run(partition_runs(instance, plan.stale, limit=most), {})
            partition = sorted(plan.stale)[0]
            one = Work(("message_blocks",), partition, partition)
            (mails := Path(str(work.lake.path("messages", partition)))).rename(tmp_path / "aside")
            with pytest.raises(WeftError, match="message_blocks") as fault:
                workers.run([one], {})
            assert fault.value.step == "message_blocks" and instance.get_run_by_id(
                fault.value.run_id or ""
            )
            (tmp_path / "aside").rename(mails)
            (victim, *_) = multiprocessing.active_children()
            victim.kill()
            victim.join()
            with pytest.raises(WeftError, match="ended from outside"):
                workers.run([one] * 2, {})
    until(lambda: not multiprocessing.active_children(), "the end of all workers")
    assert progress.rows["messages"] == 24
    assert {partition for stage, partition, _ in steps if stage == "message_terms"} == set(
        plan.stale
    )
    result = work.build()
    assert not result.plan.stale
    assert lake_hashes(work) == lake_hashes(built_once)
    assert set(differences(work.index, built_once.index)) <= {"manifest"}
