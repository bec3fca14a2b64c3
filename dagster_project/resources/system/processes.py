"""Other processes, whether they live and which this one started; and the unused memory of this one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def is_left_over(pid: str) -> bool:
    """True for the pid of a process that has ended, or of this one, which has no files in flight yet."""
    if not pid.isdigit() or int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def end_started() -> None:
    """Kill all descendants of this process, including those in sessions of their own."""
    for pid in list(_started_by(os.getpid(), _parents())):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _started_by(pid: int, parents: dict[int, int]) -> Iterator[int]:
    for child in [c for c, parent in parents.items() if parent == pid]:
        yield child
        yield from _started_by(child, parents)


def _parents() -> dict[int, int]:
    """The parent of every process; none if the system does not list them."""
    parents = {}
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program, in parentheses, may hold anything.
            parents[int(stat.parent.name)] = int(
                stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            )
    return parents
