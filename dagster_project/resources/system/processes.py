"""Other processes: whether one that left a file behind lives, which this one started; and what this one holds of memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def is_left_over(pid: str) -> bool:
    """True for the pid of a process that is gone, or of this one, which has nothing in flight yet."""
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
    """End the processes that this one started and those that they did, sessions of their own among them."""
    for pid in list(_started_by(os.getpid(), _parents())):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _started_by(pid: int, parents: dict[int, int]) -> Iterator[int]:
    for child in [c for c, parent in parents.items() if parent == pid]:
        yield child
        yield from _started_by(child, parents)


def _parents() -> dict[int, int]:
    """The parent of every process; none where the system does not list them."""
    found = {}
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program, in parentheses, may hold anything.
            found[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    return found


def give_memory_back() -> None:
    """Give the system what this process holds of memory without using it: gigabytes after millions of texts."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # of the GNU library alone
        ctypes.CDLL(None).malloc_trim(0)
