"""A build may be killed at any moment: what is published stays whole, and the next build ends the work."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from tests.archives import Mail, Workspace, differences, discussion, rebuilt, two_lists

KILLS = 4
LOCKS = (".build.lock", ".lake.lock", ".door.lock", ".slow.lock", ".lock", ".claims")
STARTUP = 0.4
"""Share of a build's time in which the program starts and nothing can be lost."""


def start_build(work: Workspace) -> subprocess.Popen[str]:
    """`weft build` in a process of its own."""
    command = [sys.executable, "-m", "dagster_project.cli", "build", "--quiet", "--config", str(work.config)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], seconds: float) -> None:
    """Let a process run for a while at most, then kill it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=seconds)
    process.kill()
    process.communicate()


def change(work: Workspace) -> None:
    """Add, change and remove mail."""
    work.write(
        "dev/dev.2004-02.mbox", [*discussion(100, 5, "write-ahead log"), *discussion(500, 4, "planner")]
    )
    work.write("dev/dev.2004-03.mbox", [Mail(600, "Agreed.", "Re: compactor", reply_to=3)])
    (work.folder / "mail" / "users" / "users.2004-01.mbox").unlink()
    work.write("users/users.2004-02.mbox", discussion(700, 4, "shell"))


def leftovers(work: Workspace) -> list[str]:
    """Files that only a running build has."""
    root = work.settings.root
    hidden = [p for p in root.rglob(".*") if p.name not in LOCKS]
    return sorted(str(p.relative_to(root)) for p in [*hidden, *(root / "cache").glob("files.json.*")])


@pytest.fixture(scope="module")
def undisturbed(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, float]:
    """The changed workspace as a full build publishes it, and how long an incremental build takes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    timed = built_once.copied(folder / "timed")
    change(timed)
    start = time.monotonic()
    process = start_build(timed)
    process.communicate(timeout=120)
    assert process.returncode == 0
    seconds = time.monotonic() - start
    return rebuilt(timed, folder / "full"), seconds


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_killed_build_is_ended_by_the_next(
    built: Workspace, undisturbed: tuple[Workspace, float], kill: int
):
    expected, seconds = undisturbed
    before = (built.index / "CURRENT").resolve()
    change(built)
    moment = seconds * (STARTUP + (1 - STARTUP) * (kill + random.Random(kill).random()) / KILLS)
    with duckdb.connect(str(before), read_only=True) as reader:
        kill_after(start_build(built), moment)
        assert reader.execute("SELECT count(*) FROM messages").fetchall() == [(21,)]
    visible = (built.index / "CURRENT").resolve()
    assert visible == before or built.sql("SELECT count(*) FROM messages") == [(20,)]
    built.build()
    assert differences(built.index, expected.index) == {}
    assert leftovers(built) == []
    with built.instance() as instance:
        open_runs = [
            s
            for s in dg.DagsterRunStatus
            if s not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE)
        ]
        assert instance.get_runs(filters=dg.RunsFilter(statuses=open_runs)) == []
    assert built.plan().is_empty


def test_the_first_build_may_be_killed_too(
    tmp_path: Path, built_once: Workspace, undisturbed: tuple[Workspace, float]
):
    work = two_lists(tmp_path / "work")
    kill_after(start_build(work), undisturbed[1] * 0.8)
    work.build()
    assert differences(work.index, built_once.index) == {}


def test_of_two_builds_at_once_one_builds_and_the_other_says_so_or_finds_nothing_to_do(
    built: Workspace, undisturbed: tuple[Workspace, float]
):
    change(built)
    processes = [start_build(built), start_build(built)]
    faults = [p.communicate(timeout=120)[1] for p in processes]
    codes = [p.returncode for p in processes]
    assert sorted(codes) in ([0, 8], [0, 0])
    assert all("another build" in fault for fault, code in zip(faults, codes, strict=True) if code == 8)
    assert differences(built.index, undisturbed[0].index) == {}
