"""Spark and Ray make the same lake as this machine, also when a worker or the build itself dies."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dagster_project.system.processes import _parents, _started_by
from tests.archives import PUBLISHED_ANEW, Workspace, differences, two_lists
from tests.processes import Command
from tests.timing import HUNG, until

pytestmark = pytest.mark.exhaustive
ENGINES: Mapping[str, Mapping[str, object]] = {
    "spark": {"kind": "spark"},
    "ray": {"kind": "ray", "tasks": 2},
}
WORKERS = {"spark": "pyspark.daemon", "ray": "ray::run_task"}
"""What the command of a process says that runs tasks; Spark's is that of an executor."""
BUCKET = "weft-lake"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of an engine that can run here."""
    kind = str(request.param)
    if importlib.util.find_spec("pyspark" if kind == "spark" else kind) is None:
        pytest.skip(f"the extra {kind} is not installed")
    if kind == "spark" and not shutil.which("java"):
        pytest.skip("Spark needs Java 17 or later, which is not on this machine")
    return kind


def worker(kind: str) -> int | None:
    """A process of the engine that this test started and that runs tasks now."""
    parents = _parents()
    for pid in _started_by(os.getpid(), parents):
        with suppress(OSError):
            if WORKERS[kind] in Path(f"/proc/{pid}/cmdline").read_text():
                return parents[pid] if kind == "spark" else pid
    return None


def awaited(found: Callable[[], Any], build: subprocess.Popen[str] | None = None) -> Any:
    """What is found, once it is there, and before a build is through."""
    there = until(
        lambda: found() or (build is not None and build.poll() is not None and "ended"),
        "it",
        pause=0.1,
    )
    assert there != "ended", build.communicate() if build else None
    return there


def hashes(work: Workspace) -> dict[str, str]:
    """The content hash of each table of the lake, of each of its partitions and parts."""
    places = [place for place in work.lake.places() if place[0] not in PUBLISHED_ANEW]
    footers = {f"{table} {part or ''}": work.lake.footer(table, part) for table, part in places}
    return {place: footer.content_hash for place, footer in footers.items() if footer}


def test_after_a_killed_build_and_a_dead_worker_an_engine_makes_the_same_lake_on_s3(
    engine: str, built_once: Workspace, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MASTER", "local-cluster[2,1,1024]")
    s3.create_bucket(Bucket=BUCKET)
    storage = {"root": "state", "lake": f"s3://{BUCKET}/lake"}
    work = two_lists(tmp_path / "work", storage=storage, engine=ENGINES[engine])
    killed = Command(work.folder, "build", "--quiet", "--config", work.config)
    awaited(lambda: tasks(s3))
    assert killed.killed_after(1)
    left = tasks(s3)
    command = [
        sys.executable,
        "-m",
        "dagster_project.cli",
        "build",
        "--quiet",
        "--config",
        str(work.config),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as build:
        os.kill(awaited(lambda: worker(engine), build), signal.SIGKILL)
        _, printed = build.communicate(timeout=HUNG)
    assert build.returncode == 0, printed
    assert hashes(work) == hashes(built_once)
    assert differences(work.index, built_once.index) == {}
    assert work.plan().is_empty and tasks(s3) == left


def tasks(client: Any) -> list[str]:
    listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
    return [item["Key"] for item in listed if item["Key"].endswith(".tasks")]
