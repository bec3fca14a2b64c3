"""Ctrl-C and SIGTERM end any command at once: one line, its exit code, no process left, and the
next run is right.
"""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.archives import Workspace, differences, two_lists
from tests.processes import weft
from tests.timing import HUNG, until

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Started:
    """A command in a session of its own, as a terminal starts it."""

    def __init__(self, work: Workspace, *arguments: str | Path):
        command = [
            sys.executable,
            "-m",
            "dagster_project.cli",
            *map(str, arguments),
            "--config",
            work.config,
        ]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def ends_at(self, number: signal.Signals, reached: Callable[[], object]) -> str:
        """What it says at a signal that comes when something is `reached`: to all it started by
        Ctrl-C, else to it.
        """
        until(
            lambda: self.process.poll() is not None or reached(),
            "the moment of the signal",
            pause=0.005,
        )
        assert self.process.poll() is None, "it ended before"
        (os.killpg if number == signal.SIGINT else os.kill)(self.process.pid, number)
        _, said = self.process.communicate(timeout=HUNG)
        assert self.process.returncode == CODES[number]
        until(lambda: not _alive(self.process.pid), "the end of all processes of the command")
        return said


def _alive(session: int) -> list[str]:
    """The processes of a session that did not end."""
    found = subprocess.run(
        ["ps", "-e", "-o", "sid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(session) and not row[1].startswith("Z")]


def assert_one_line(said: str, number: signal.Signals) -> None:
    (line,) = said.splitlines()
    assert line.startswith(f"interrupted ({number.name}): ")


def _there(pattern: str) -> Callable[[Path], object]:
    return lambda root: next(root.glob(pattern), None)


POINTS: dict[str, Callable[[Path], object]] = {
    "assets": _there("lake/messages/*/*.parquet"),
    "publish": _there("index/.build-*"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("point", "number"), [("assets", signal.SIGTERM), ("publish", signal.SIGINT)]
)
def test_a_build_is_ended_at_any_point_and_the_next_is_right(
    tmp_path: Path, built_once: Workspace, point: str, number: signal.Signals
):
    side_by_side = {"tasks": 2}
    work = two_lists(tmp_path / "work", engine=side_by_side if number == signal.SIGINT else {})
    root = work.settings.root
    said = Started(work, "build", "--quiet").ends_at(number, lambda: POINTS[point](root))
    assert_one_line(said, number)
    done = weft(work.folder, "build", "--json", "--config", work.config)
    assert done.code == 0, done.err
    assert done.told["interrupted"], "the next build says which runs it closed"
    assert differences(work.index, built_once.index) == {}
    assert not [p for p in root.rglob(".*") if "tmp" in p.name or "build-" in p.name]


BUSY = """
import os, subprocess, threading, time
from dagster_project.system.processes import end_started

begun = threading.Semaphore(0)

def start():
    while True:
        subprocess.Popen(["sh", "-c", "sleep 10000 & sleep 10000"])
        begun.release()
        time.sleep(0.005)

for _ in range(2):
    threading.Thread(target=start, daemon=True).start()
for _ in range(20):
    begun.acquire()
end_started()
os._exit(0)
"""


def test_none_is_left_of_the_processes_that_threads_start_at_that_moment():
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
        assert process.wait(HUNG) == 0
        until(lambda of=process.pid: not _alive(of), "the end of all that it started")


COMMANDS: dict[str, Sequence[str]] = {
    "search": ("search", "compactor"),
    "context": ("context", "--stdin"),
    "mcp": ("mcp",),
    "mcp over HTTP": ("mcp", "--http", "0"),
    "backfill": ("build", "--backfill"),
    "plan": ("plan",),
}


def _has_loaded(process: int, name: str) -> Callable[[], bool]:
    """Whether a process has mapped a library, by which one sees how far it came."""
    return lambda: name in Path(f"/proc/{process}/maps").read_text()


def _reads(stdin: IO[str]) -> Callable[[], bool]:
    """Whether a process has begun to read what it is sent."""
    stdin.write("Which compactor?\n")
    stdin.flush()
    return lambda: fcntl.ioctl(stdin, termios.FIONREAD, bytes(4)) == struct.pack("i", 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_any_command_is_ended_with_one_line(built_once: Workspace, tmp_path: Path, command: str):
    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc that says how far a process came")
    work = built_once.copied(tmp_path / "work")
    started = Started(work, *COMMANDS[command])
    stdin = started.process.stdin
    assert stdin is not None
    reached = (
        _reads(stdin)
        if "--stdin" in COMMANDS[command]
        else _has_loaded(started.process.pid, "pydantic_core")
    )
    said = started.ends_at(signal.SIGINT, reached)
    assert_one_line(said, signal.SIGINT)
    assert weft(work.folder, "search", "compactor", "--config", work.config).code == 0


AT_ITS_IMPORTS = """
import builtins, os, signal
from dagster_project.cli import __main__

real = builtins.__import__

def interrupted(name, *more):
    if name == "dagster_project.cli.command":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *more)

builtins.__import__ = interrupted
__main__.run()
"""


def test_a_command_is_interrupted_at_its_imports_without_a_traceback():
    done = subprocess.run([sys.executable, "-c", AT_ITS_IMPORTS], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.exhaustive
def test_the_ui_is_ended_with_all_its_processes(built: Workspace):
    started = Started(built, "ui", "--port", "0")
    below: set[psutil.Process] = set()

    def has_started() -> bool:
        below.update(psutil.Process(started.process.pid).children(recursive=True))
        return len(below) > 3

    said = started.ends_at(signal.SIGINT, has_started)
    assert said.splitlines()[-1].startswith("interrupted (SIGINT)") and "Traceback" not in said
    until(lambda: not any(map(_is_alive, below)), "the end of all processes of the UI")


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
