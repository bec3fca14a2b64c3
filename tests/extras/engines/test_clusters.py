"""Spark and Ray make the same lake as this machine, also when a worker, a task or the build itself dies."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest

from dagster_project.system.processes import _parents, _started_by
from tests.archives import PUBLISHED_ANEW, Workspace, differences, lake_hashes, two_lists
from tests.processes import Command
from tests.s3_loopback import s3_service
from tests.timing import HUNG, until

pytestmark = pytest.mark.exhaustive
ENGINES: Mapping[str, Mapping[str, object]] = {
    "spark": {"kind": "spark", "master": "local-cluster[2,1,1024]"},
    "ray": {"kind": "ray", "tasks": 2},
}
WORKERS = {"spark": "pyspark.daemon", "ray": "ray::run_task"}
"""What the command of a process says that runs tasks; Spark's is that of an executor."""
"""Seconds after which nothing comes any more."""
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
    there = until(lambda: found() or (build is not None and build.poll() is not None and "ended"), "it")
    assert there != "ended", build.communicate() if build else None
    return there


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """The environment of an S3 service with an empty bucket."""
    with s3_service() as url:
        keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "sEcReT/kEy"}
        yield {"AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": "us-east-1", **keys}


def hashes(work: Workspace) -> dict[str, str]:
    """The content hash of each table of the lake, of each of its partitions and parts."""
    places = [place for place in work.lake.places() if place[0] not in PUBLISHED_ANEW]
    footers = {f"{table} {part or ''}": work.lake.footer(table, part) for table, part in places}
    return {place: footer.content_hash for place, footer in footers.items() if footer}


def test_an_engine_makes_the_same_lake_on_s3_though_a_worker_dies(
    engine: str, built_once: Workspace, store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    storage = {"root": "state", "lake": f"s3://{BUCKET}/lake"}
    work = two_lists(tmp_path / "work", storage=storage, engine=ENGINES[engine])
    command = [sys.executable, "-m", "dagster_project.cli", "build", "--quiet", "--config", str(work.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as build:
        os.kill(awaited(lambda: worker(engine), build), signal.SIGKILL)
        _, printed = build.communicate(timeout=HUNG)
    assert build.returncode == 0, printed
    assert hashes(work) == hashes(built_once)
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
    awaited(lambda: list(lake.rglob("*.tasks")))
    assert killed.killed_after(1)
    ended = Command(work.folder, "build", "--quiet", "--config", work.config).ended()
    assert ended.code == 0, ended.err
    assert lake_hashes(work) == lake_hashes(built_once)
    assert differences(work.index, built_once.index) == {}
    assert work.plan().is_empty and not list(lake.rglob("*.tasks"))
