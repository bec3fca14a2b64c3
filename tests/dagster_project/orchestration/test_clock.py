"""A clock that is set back between builds, or in one that is killed: the next comes to what a full
one does.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dagster_project.index.publish.versions import CURRENT
from tests.archives import Once, Workspace, differences, lake_hashes
from tests.dagster_project.orchestration.test_killed_builds import change
from tests.dagster_project.orchestration.test_killed_builds import changed as built_after
from tests.processes import weft
from tests.timing import HUNG, until

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def changed(
    built_once: Workspace, once: Once, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Workspace, Workspace]:
    """A published workspace whose mail changed since, and one of the same mail that was built from
    nothing.
    """
    if not shutil.which("faketime"):
        pytest.skip("faketime is not installed")
    folder = tmp_path_factory.mktemp("clock")
    before = built_once.copied(folder / "before")
    change(before)
    return before, built_after(once, folder / "expected")


class Clocked:
    """`weft build` by a clock of its own, which can be set while it runs."""

    def __init__(self, work: Workspace, offset: str):
        self.clock = work.folder / "clock"
        self.set(offset)
        command = [
            sys.executable,
            "-m",
            "dagster_project.cli",
            "build",
            "--quiet",
            "--config",
            work.config,
        ]
        names = {"FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1"}
        names |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "LD_PRELOAD": self._library()}
        self.said = work.folder / "said"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                command, env=os.environ | names, stderr=said, start_new_session=True
            )

    def _library(self) -> str:
        """What the program `faketime` has the linker load."""
        asked = [
            "faketime",
            "-f",
            "-1d",
            sys.executable,
            "-c",
            "import os; print(os.environ['LD_PRELOAD'])",
        ]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    def set(self, offset: str) -> None:
        """Have the clock go so much behind or ahead."""
        aside = self.clock.with_suffix(".aside")
        aside.write_text(f"{offset}\n")
        aside.replace(self.clock)

    def wait_for(self, folder: Path, pattern: str) -> None:
        until(
            lambda: self.process.poll() is not None or next(folder.glob(pattern), None),
            pattern,
            pause=0.005,
        )
        assert self.process.poll() is None, "it ended before"

    def ended(self) -> None:
        """Wait for its end, which has to be a good one."""
        self.process.wait(HUNG)
        self.killed()
        assert self.process.returncode == 0, self.said.read_text()

    def killed(self) -> None:
        """End it as a power cut would, with its processes: some of Dagster's do not end by a clock
        like this.
        """
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HUNG)


def assert_as_expected(work: Workspace, expected: Workspace) -> None:
    assert differences(work.index, expected.index) == {}
    assert lake_hashes(work) == lake_hashes(expected)
    assert work.plan().is_empty
    versions = list(work.index.glob("weft-*.duckdb"))
    assert (work.index / CURRENT).resolve() in versions and len(
        versions
    ) == work.settings.index.keep_versions


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_build_that_goes_on_with_a_clock_that_was_set_back_comes_to_the_same(
    changed: tuple[Workspace, Workspace], tmp_path: Path, is_killed: bool
):
    before, expected = changed
    work = before.copied(tmp_path / "work")
    build = Clocked(work, "+2d" if is_killed else "+0")
    build.wait_for(work.settings.root, "index/.build-*" if is_killed else ".runs/*")
    if is_killed:
        build.killed()
        build = Clocked(work, "-30d")
    else:
        build.set("-30d")
    build.ended()
    assert_as_expected(work, expected)
    done = weft(work.folder, "build", "--json", "--config", work.config)
    assert done.code == 0 and done.told["outcome"] == "UNCHANGED", done.err
