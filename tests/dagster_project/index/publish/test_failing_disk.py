"""A disk that fails at the n-th write of a publish: readers keep a whole version, and the next
publish is complete.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dagster_project.cli.doctor import examination
from dagster_project.evaluation.evaluate import open_index
from dagster_project.orchestration.outcomes import Finding
from tests.archives import Workspace, differences
from tests.cases import FACTOR

QUERY = ["What does the compactor do?"]
STEP = 25
"""Writes between two that one test lets fail."""
STARTS = range(1, STEP + 1, max(1, round(STEP / FACTOR)))
"""With WEFT_EXAMPLES=25 every write of a publish fails once."""


class _Disk:
    """The disk below a folder as Python writes to it: files that are opened to write, folders,
    names and links.
    """

    def __init__(self) -> None:
        self.folder: str | None = None
        self.writes, self.fails_at = 0, -1
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or event not in (
            "open",
            "os.rename",
            "os.link",
            "os.mkdir",
            "os.symlink",
        ):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        paths = [os.fsdecode(a) for a in arguments[:2] if isinstance(a, str | bytes | os.PathLike)]
        if any(path.startswith(self.folder) for path in paths):
            self.writes += 1
            if self.writes == self.fails_at:
                raise OSError(errno.EIO, os.strerror(errno.EIO), paths[0])

    @contextmanager
    def failing(self, folder: Path, at: int) -> Iterator[_Disk]:
        """Let the write of this number below a folder fail; of 0 none."""
        self.folder, self.writes, self.fails_at = str(folder), 0, at
        try:
            yield self
        finally:
            self.folder = None


DISK = _Disk()


@pytest.fixture(scope="module")
def started(
    built_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Workspace]:
    """A workspace in which nothing is published, and one whose version lacks a partition."""
    folder = tmp_path_factory.mktemp("started")
    found = {kind: built_once.copied(folder / kind) for kind in ("first", "update")}
    shutil.rmtree(found["first"].index)
    found["update"].publish("dev/2004-02")
    return found


def answers(work: Workspace) -> list[dict[str, Any]]:
    if not (work.index / "CURRENT").exists():
        return []
    with closing(open_index(work.settings)) as opened:
        found: list[dict[str, Any]] = opened.search(QUERY).hits.to_pylist()
        return found


def of_index(work: Workspace) -> list[Finding]:
    return [f for f in examination(work.settings) if f.area == "index" and f.state == "fault"]


def fails_and_goes_on(work: Workspace, at: int, before: object, expected: Workspace) -> bool:
    """Publish with a write that fails, look at what is published, and publish again; False if there
    are fewer writes.
    """
    with DISK.failing(work.index, at) as disk:
        try:
            work.publish()
        except OSError as error:
            assert error.errno == errno.EIO
    assert answers(work) in (before, answers(expected))
    assert of_index(work) == []
    work.publish()
    assert differences(work.index, expected.index) == {}
    assert of_index(work) == []
    return disk.writes >= at


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", ["first", "update"])
def test_a_write_that_fails_leaves_a_whole_version(
    built_once: Workspace, started: dict[str, Workspace], tmp_path: Path, kind: str, start: int
) -> None:
    at, before = start, answers(started[kind])
    while fails_and_goes_on(
        work := started[kind].copied(tmp_path / f"at-{at}"), at, before, built_once
    ):
        at += STEP
    assert at > 2 * STEP, "a publish writes more"
    since_rebuild = work.column("SELECT value FROM manifest WHERE key = 'postings_since_rebuild'")
    assert (since_rebuild == ["0"]) == (kind == "first")
