"""Commands of Weft in processes of their own, forked from one that has loaded its modules, so that
they start at once.
"""

import json
import multiprocessing
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.timing import HUNG, until

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "dagster_project.cli.build",
        "dagster_project.cli.command",
        "dagster_project.cli.search",
        "dagster_project.orchestration.sqlite_storage",
        # What these import when they are first used.
        "dagster._core.execution.execute_in_process",
        "dagster._core.instance.factory",
        "dagster._core.remote_representation",
        "google.genai.client",
        "google.genai.types",
        "ibis.backends.duckdb",
        "ibis.formats.pandas",
        "pyarrow.dataset",
        "requests",
        "structlog",
        "tokenizers",
    ]
)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """True if somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def forked(work: Callable[..., object], *given: object) -> ForkServerProcess:
    """A process, not started yet, that does some work in the environment of this moment.

    By itself it would have that in which the first of all processes was forked: another test's.
    """
    return FORKS.Process(target=_in_environment, args=(dict(os.environ), work, given))


def _in_environment(
    variables: dict[str, str], work: Callable[..., object], given: tuple[object, ...]
) -> None:
    os.environ.clear()
    os.environ.update(variables)
    work(*given)


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code (negative for a signal), its output and its faults."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> dict[str, Any]:
        """What a command with --json printed."""
        told: dict[str, Any] = json.loads(self.out)
        return told


class Command:
    """`weft` with some arguments, started; what it prints is kept in `folder`."""

    def __init__(
        self, folder: Path, *arguments: str | Path, home: Path | None = None, dies_at: str = ""
    ):
        """`home` is the `DAGSTER_HOME` of the command; else that is below its storage.

        The command kills itself, as a power cut would, before it renames anything to a path with
        the pattern `dies_at`.
        """
        self._printed = [
            folder / f"printed-{time.monotonic_ns()}.{name}" for name in ("out", "err")
        ]
        self._process = forked(_run, [str(a) for a in arguments], self._printed, home, dies_at)
        self._process.start()

    def has_died(self) -> bool:
        """Wait until it ends; True if it was killed."""
        self._process.join(HUNG)
        return self.killed_after(0)

    def killed_after(self, seconds: float) -> bool:
        """Kill it unless it ends within some seconds; True if it was killed."""
        self._process.join(max(seconds, 0))
        self._process.kill()
        self._process.join()
        return self._process.exitcode == -9

    def killed_at(self, file: Path) -> bool:
        """Kill it as soon as a file is there, unless it ends before; True if it was killed."""
        while self._process.is_alive() and not file.exists():
            self._process.join(0.002)
        return self.killed_after(0)

    def ended(self) -> Ended:
        self._process.join(HUNG)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError("the command hangs")
        out, err = (p.read_text() if p.exists() else "" for p in self._printed)
        return Ended(self._process.exitcode, out, err)


def weft(folder: Path, *arguments: str | Path) -> Ended:
    return Command(folder, *arguments).ended()


def _run(arguments: list[str], printed: list[Path], home: Path | None, dies_at: str) -> None:
    from dagster_project.cli.command import run_command

    def die(event: str, given: tuple[object, ...]) -> None:
        if event == "os.rename" and fnmatch(str(given[1]), dies_at):
            os.kill(os.getpid(), signal.SIGKILL)

    if dies_at:
        sys.addaudithook(die)
    for stream, path in zip((sys.stdout, sys.stderr), printed, strict=True):
        stream.flush()
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.pop("DAGSTER_HOME", None)
    if home:
        os.environ["DAGSTER_HOME"] = str(home)
    try:
        run_command(arguments)
    except Exception:  # noqa: BLE001 - as Python does with what leaves a program
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def fetch_that_is_killed(
    config: Path, source: str, moment: Callable[[], object] = lambda: False
) -> bool:
    """Fetch a source in a process of its own and kill that at a moment; True unless it had ended by
    itself.
    """
    process = forked(_fetch, config, source)
    process.start()
    until(lambda: moment() or not process.is_alive(), "the end of a fetch")
    process.kill()
    process.join()
    return process.exitcode == -9


def _fetch(config: Path, source: str) -> None:
    from dagster_project.config.settings import load_settings
    from dagster_project.remotes.source_remotes import SourceRemotes

    SourceRemotes(load_settings(config)).fetch(source)


def write_that_is_killed(database: Path, *statements: str) -> None:
    """Write to a SQLite file in a process that dies before the commit: some pages are written, and
    a journal undoes them.
    """
    process = forked(_write_and_die, database, statements)
    process.start()
    process.join(HUNG)
    journal = database.with_name(f"{database.name}-journal")
    assert database.stat().st_size and journal.stat().st_size


def _write_and_die(database: Path, statements: tuple[str, ...]) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    for statement in ("PRAGMA cache_size = 5", "BEGIN", *statements):
        connection.execute(statement)
    os._exit(1)
