"""Builds may be killed at any step, one after the other: what is published stays whole, and the
next ends the work.
"""

import mmap
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import MAIL
from dagster_project.cli.command import run_command
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import whole_phases
from dagster_project.orchestration.runs import UNFINISHED, run_here
from dagster_project.orchestration.work import Work
from dagster_project.system.locks import RUNS
from tests.archives import Mail, Once, Workspace, differences, discussion, lake_hashes, two_lists
from tests.processes import Command, forked
from tests.timing import until

KEPT = (
    ".build.lock",
    ".lake.lock",
    ".queue.lock",
    ".runs",
    ".lock",
    ".claims",
    *(".db", ".db-shm", ".db-wal"),  # Dagster's own, of what no run reports
)
POWER_CUTS, CUTS_OF_A_BUILD = 54, 9
"""How often the power is cut, and after how many cuts a build has to end the work."""


def start_build(work: Workspace, home: Path | None = None) -> Command:
    return Command(work.folder, "build", "--json", "--config", work.config, home=home)


def change(work: Workspace) -> None:
    work.write(
        "dev/dev.2004-02.mbox",
        discussion(100, 5, "write-ahead log") + discussion(500, 4, "planner"),
    )
    work.write("dev/dev.2004-03.mbox", [Mail(600, "Agreed.", "Re: compactor", reply_to=3)])
    (work.folder / "mail" / "users" / "users.2004-01.mbox").unlink(missing_ok=True)
    work.write("users/users.2004-02.mbox", discussion(700, 4, "shell"))


def change_back(work: Workspace) -> None:
    for name in ("dev/dev.2004-03.mbox", "users/users.2004-02.mbox"):
        (work.folder / "mail" / name).unlink(missing_ok=True)
    two_lists(work.folder)


def leftovers(work: Workspace) -> list[str]:
    """Files that only a running build has."""
    root = work.settings.root
    hidden = [p for p in root.rglob(".*") if p.name not in KEPT] + list((root / RUNS).glob("*"))
    return sorted(str(p.relative_to(root)) for p in hidden)


def changed(once: Once, folder: Path) -> Workspace:
    """Two lists after `change`, built from nothing; for reading only."""
    change(work := two_lists(folder))
    return once(work)


@pytest.fixture(scope="module")
def after(
    built_once: Workspace, once: Once, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Workspace, Workspace]:
    """Two lists after `change` and `change_back`, each built from nothing."""
    return changed(once, tmp_path_factory.mktemp("changed")), built_once


def _runs_under_way(work: Workspace) -> set[str]:
    with work.instance() as instance:
        return set(instance.get_run_ids(filters=dg.RunsFilter(statuses=UNFINISHED)))


@pytest.mark.exhaustive
def test_builds_and_runs_of_dagster_that_are_killed_at_once_are_ended_by_the_next_build(
    after: tuple[Workspace, Workspace], tmp_path: Path
):
    work, killed = two_lists(tmp_path / "work"), 0
    for seed in range(POWER_CUTS // CUTS_OF_A_BUILD):
        (change, change_back)[seed % 2](work)
        process = forked(_cut_power, work.folder, seed, told := tmp_path / "killed")
        process.start()
        process.join()
        killed += int(told.read_text())
        if (work.index / "CURRENT").exists():
            assert work.sql("SELECT count(*) FROM messages") in ([(20,)], [(21,)])
        under_way, full = _runs_under_way(work), after[seed % 2]
        done = start_build(work).ended()
        assert done.code == 0, done.err
        assert {found["run"] for found in done.told["interrupted"]} == under_way
        assert differences(work.index, full.index) == {}
        assert lake_hashes(work) == lake_hashes(full)
        assert leftovers(work) == []
        assert not _runs_under_way(work)
        assert work.plan().is_empty
    assert killed >= 100


def _cut_power(folder: Path, seed: int, told: Path) -> None:
    """End a build and a run of Dagster at once, again and again; writes how many of them that
    ended.
    """
    work, chance, killed = Workspace(folder), random.Random(seed), 0
    definitions = build_definitions(work.settings)
    build = partial(run_command, ["build", "--config", str(work.config)])
    wholes = Work(tuple(table for phase in whole_phases(work.settings) for table in phase))
    works = Work(MAIL.tables, partition := "dev/2004-02", partition), wholes
    for made in works:
        definitions.resolve_job_def(made.job)

    def run(made: Work) -> None:
        with work.instance() as instance:
            run_here(definitions, instance, made, {})

    for turn in range(CUTS_OF_A_BUILD):
        at_work, group, pids = mmap.mmap(-1, 2), 0, []
        lives = chance.randint(1, 9)
        for number, act in enumerate((partial(run, works[turn % 2]), build)):
            pid = os.fork()
            os.setpgid(pid, group)
            if pid == 0:
                _until_a_cut(act, at_work, number, lives)
            group = group or pid
            pids.append(pid)
        killed += sum(
            os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL for pid in pids
        )
    told.write_text(str(killed))


def _until_a_cut(act: Callable[[], None], at_work: mmap.mmap, number: int, lives: int) -> None:
    """Do something in a forked process until it, or the other, is about to rename a file for the
    last time.
    """
    renames = 0

    def hook(event: str, _: object) -> None:
        nonlocal renames
        if event in ("os.rename", "fcntl.flock"):
            at_work[number] = 1
        if event == "os.rename":
            until(lambda: at_work[1 - number], "the other")
            renames += 1
            if renames == lives:
                os.killpg(0, signal.SIGKILL)

    sys.addaudithook(hook)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    try:
        act()
    finally:
        at_work[number] = 1
        os._exit(0)


@pytest.mark.exhaustive
def test_of_two_builds_at_once_one_builds_and_the_other_says_so_or_finds_nothing_to_do(
    built: Workspace, after: tuple[Workspace, Workspace], tmp_path: Path
):
    """Though each of them is of a Dagster instance of its own, as when somebody starts a second one
    by mistake.
    """
    change(work := built)
    started = (start_build(work), start_build(work, home=tmp_path / "second"))
    ended = [command.ended() for command in started]
    assert sorted(done.code for done in ended) in ([0, 8], [0, 0])
    assert all("another build" in done.err for done in ended if done.code == 8)
    assert differences(work.index, after[0].index) == {}
