"""Spark and Ray make the same lake as this machine, also when a worker, a task or the build itself dies."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from dagster_project.resources.system.processes import _parents, _started_by
from tests.archives import Workspace, differences, lake_hashes, two_lists
from tests.processes import Command

pytestmark = pytest.mark.exhaustive
ENGINES: Mapping[str, Mapping[str, object]] = {
    "spark": {"kind": "spark", "master": "local-cluster[2,1,1024]"},
    "ray": {"kind": "ray", "tasks": 2},
}
WORKERS = {"spark": "CoarseGrainedExecutorBackend", "ray": "ray::run_task"}
"""What the command of a process says that runs tasks."""
STUCK = 120
"""Seconds after which nothing comes any more."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of an engine that can run here."""
    kind = str(request.param)
    if importlib.util.find_spec("pyspark" if kind == "spark" else kind) is None:
        pytest.skip(f"the extra {kind} is not installed")
    if kind == "spark" and not shutil.which("java"):
        pytest.skip("Spark needs Java 17 or later, which is not on this machine")
    return kind


def workers(kind: str) -> Iterator[int]:
    """The processes of an engine that this test started and that run tasks now."""
    for pid in _started_by(os.getpid(), _parents()):
        with suppress(OSError):
            if WORKERS[kind] in Path(f"/proc/{pid}/cmdline").read_text():
                yield pid


def awaited(path: Path, pattern: str) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + STUCK
    while not next(path.rglob(pattern), None):
        assert time.monotonic() < end, f"nothing like {pattern} came"
        time.sleep(0.01)


def test_an_engine_makes_the_same_lake_though_a_worker_dies(
    engine: str, built_once: Workspace, tmp_path: Path
):
    work = two_lists(tmp_path / "work", engine=ENGINES[engine])
    build = Command(work.folder, "build", "--quiet", "--config", work.config)
    awaited(work.folder, "*.tasks")
    end = time.monotonic() + STUCK
    while not (running := list(workers(engine))):
        assert time.monotonic() < end, "no worker came"
        time.sleep(0.01)
    os.kill(running[0], signal.SIGKILL)
    ended = build.ended()
    assert ended.code == 0, ended.err
    assert lake_hashes(work) == lake_hashes(built_once)
    assert differences(work.index, built_once.index) == {}
    assert work.plan().is_empty


def test_after_a_failed_task_and_a_killed_build_the_next_makes_the_same(
    engine: str, built_once: Workspace, tmp_path: Path
):
    work = two_lists(tmp_path / "work", engine=ENGINES[engine])
    lake = work.settings.root / "lake"
    (in_the_way := lake / "message_blocks" / "dev").parent.mkdir(parents=True)
    in_the_way.touch()
    failed = Command(work.folder, "build", "--quiet", "--config", work.config).ended()
    assert failed.code == 1 and "partition dev/dev.2004-01, stage message_blocks" in failed.err
    in_the_way.unlink()
    killed = Command(work.folder, "build", "--quiet", "--config", work.config)
    awaited(lake, "*.tasks")
    assert killed.killed_after(1)
    ended = Command(work.folder, "build", "--quiet", "--config", work.config).ended()
    assert ended.code == 0, ended.err
    assert lake_hashes(work) == lake_hashes(built_once)
    assert differences(work.index, built_once.index) == {}
    assert work.plan().is_empty and not list(lake.rglob("*.tasks"))
