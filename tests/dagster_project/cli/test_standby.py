"""A process beside a server does what a command that reads would do, and the command starts with little more than Python."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_project.cli import standby
from dagster_project.cli.standby_process import standing_by
from tests.archives import Workspace
from tests.timing import until

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets are; the path of one has a hundred bytes at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place) / f"weft-{os.getuid()}"


def weft(*arguments: str) -> tuple[int, str, str, bool]:
    """Exit code, output and faults of a command, and whether its own process loaded what a search takes."""
    command = [sys.executable, "-X", "importtime", "-m", "dagster_project.cli", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = done.stderr.splitlines(keepends=True)
    own = [line for line in lines if not line.startswith("import time:")]
    printed = re.sub(r'"seconds": [\d.]+', "", done.stdout)
    return done.returncode, printed, "".join(own), any("polars" in line for line in lines)


def test_a_command_is_done_by_the_process_beside_the_server_as_it_is_done_here(
    built_once: Workspace, folder: Path
):
    config = f"--config={built_once.config}"
    asked = (
        ("search", config, "--json", "the compactor"),
        ("search", config, "--json", "--", "-nothing zzzz"),
        ("get", config, "m0@example.org"),
        ("get", config, "nobody"),
        ("similar", config, "--no-such-option", "m0@example.org"),
    )
    here = [weft(*arguments) for arguments in asked]
    assert all(loaded for *_, loaded in here)
    with standing_by(built_once.config):
        until(lambda: list(folder.glob("*")), "a process that waits")
        assert [(*done[:3], True) for done in (weft(*given) for given in asked)] == here
        assert not weft(*asked[0])[3]
        os.utime(standby.__file__)
        assert weft(*asked[0]) == here[0], "the code may be another"
        until(lambda: not weft(*asked[0])[3], "a process with the code of now")
        folder.chmod(0o755)
        assert weft(*asked[0]) == here[0], "others could have put the socket there"
        folder.chmod(0o700)
    assert weft(*asked[0]) == here[0], "nobody listens at the socket that is left"
