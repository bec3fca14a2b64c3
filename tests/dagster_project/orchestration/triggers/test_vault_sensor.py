"""The sensor over vaults: one run for many edits, within a minute of the first, and none for
nothing.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import DOCUMENTS
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import partition_stages
from dagster_project.orchestration.asset_jobs import refresh_jobs
from dagster_project.orchestration.names import REFRESH_TAG
from dagster_project.orchestration.triggers.schedules import SENSOR, vault_sensor
from tests.archives import Workspace
from tests.runs import begun_run

SUCCESS = dg.DagsterRunStatus.SUCCESS


class Watched:
    """A vault under the sensor, with a clock of its own."""

    def __init__(self, folder: Path):
        self.now = 1_000_000.0
        self.vault = folder / "vault"
        self.vault.mkdir(parents=True)
        self.edit("first.md")
        self.edit("another.md")  # a vault without any file cannot be read
        self.work = Workspace(folder).configure({"name": "notes", "kind": "vault", "path": "vault"})
        self.runs: list[float] = []
        self.restart()

    def restart(self) -> None:
        """Begin the process of the sensor anew, with nothing in its memory."""
        self.sensor = vault_sensor(
            self.work.settings, refresh_jobs(self.work.settings), lambda: self.now
        )

    def edit(self, name: str) -> None:
        """Write another text of another length."""
        path = self.vault / name
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}# {name}\n")

    def look(
        self, instance: dg.DagsterInstance, seconds: float = 10, *, is_lost: bool = False
    ) -> str:
        """What the sensor says `seconds` later: a skip reason, or that it asks for a run, which
        ends unless that is lost.
        """
        self.now += seconds
        with dg.build_sensor_context(instance=instance) as context:
            answer = self.sensor(context)
        if isinstance(answer, dg.SkipReason):
            return answer.skip_message or ""
        assert isinstance(answer, list) and all(request.tags[REFRESH_TAG] for request in answer)
        if not is_lost:
            self.runs.append(self.now)
            for request in answer:
                instance.add_run(
                    dg.DagsterRun(request.job_name or "", tags=request.tags, status=SUCCESS)
                )
        return "run"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def watched(tmp_path: Path, instance: dg.DagsterInstance) -> Watched:
    """A vault whose first look and run are over."""
    made = Watched(tmp_path)
    assert made.look(instance) == "edits are still coming in"
    assert made.look(instance) == "run"
    made.runs.clear()
    return made


def test_nothing_edited_asks_for_nothing(watched: Watched, instance: dg.DagsterInstance):
    assert [watched.look(instance) for _ in range(3)] == ["no document was edited"] * 3


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_every_kind_of_edit_is_seen(watched: Watched, instance: dg.DagsterInstance, change: str):
    path = watched.vault / "first.md"
    if change in ("edit", "add"):
        watched.edit({"edit": "first.md", "add": "new.md"}[change])
    elif change == "remove":
        path.unlink()
    else:
        path.rename(watched.vault / "renamed.md")
    assert [watched.look(instance) for _ in range(3)] == [
        "edits are still coming in",
        "run",
        "no document was edited",
    ]


def test_a_link_that_leads_nowhere_hides_no_edit_behind_it(
    watched: Watched, instance: dg.DagsterInstance
):
    (watched.vault / "broken.md").symlink_to("nowhere")
    assert [watched.look(instance) for _ in range(2)] == ["edits are still coming in", "run"]
    watched.edit("first.md")
    assert [watched.look(instance) for _ in range(2)] == ["edits are still coming in", "run"]


@pytest.mark.parametrize("seed", range(3))
def test_what_its_process_forgets_and_an_answer_that_is_lost_cost_a_look_and_no_edit(
    watched: Watched, instance: dg.DagsterInstance, seed: int
):
    looks = (lambda: watched.look(instance), lambda: watched.look(instance, is_lost=True))
    for act in random.Random(seed).choices(
        (*looks, lambda: watched.edit("first.md"), watched.restart), k=12
    ):
        act()
    watched.edit("first.md")
    watched.runs.clear()
    assert "run" in [watched.look(instance, is_lost=True) for _ in range(5)]
    watched.restart()
    said = [watched.look(instance) for _ in range(4)]
    assert len(watched.runs) == 1 and said[-1] == "no document was edited", said


def test_rapid_edits_become_one_run_within_a_minute_of_the_last_look_before_them(
    watched: Watched, instance: dg.DagsterInstance
):
    begin = watched.now
    for _ in range(5):
        watched.edit("first.md")
        watched.look(instance)
    while not watched.runs:
        watched.look(instance)
    assert len(watched.runs) == 1
    assert watched.runs[0] - begin <= 60
    assert watched.look(instance) == "no document was edited"


@pytest.mark.exhaustive
def test_edits_without_end_are_built_within_a_minute_each(
    watched: Watched, instance: dg.DagsterInstance
):
    begin = watched.now
    for _ in range(30):
        watched.edit("first.md")
        watched.look(instance)
    gaps = [b - a for a, b in zip([begin, *watched.runs], watched.runs, strict=False)]
    assert max(gaps) <= 60 and len(gaps) == 6


def test_edits_wait_for_the_run_that_is_going(watched: Watched, instance: dg.DagsterInstance):
    (partition,) = instance.get_dynamic_partitions("documents")
    run = begun_run(
        watched.work,
        instance,
        partition_stages(watched.work.settings, DOCUMENTS)[0].tables,
        partition,
    )
    watched.edit("first.md")
    watched.look(instance)
    assert watched.look(instance).startswith(f"run {run.run_id[:8]} and what follows it")
    instance.report_run_failed(run)
    assert watched.look(instance) == "run"


@pytest.mark.exhaustive
def test_the_sensor_is_off_until_it_is_switched_on(watched: Watched):
    sensor = build_definitions(watched.work.settings).resolve_sensor_def(SENSOR)
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
    assert sensor.minimum_interval_seconds == 10
