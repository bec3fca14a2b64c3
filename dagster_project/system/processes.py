"""Other processes: whether they live, which this one started, and the output of one of these."""

import _posixsubprocess
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

_PROCESSES = Path("/proc")
_READ_AT_ONCE = 1 << 20
_KEPT_BYTES = 1 << 12
_TICK = 2.0
"""Seconds by which the clocks of files and of processes may differ."""
_STARTS = (
    (subprocess.Popen, "__init__"),
    (subprocess, "_fork_exec"),
    (_posixsubprocess, "fork_exec"),
    (os, "fork"),
    (os, "posix_spawn"),
)
"""All by which Python starts processes: the functions that a program calls, and the last step
before the system does it.
"""


def is_left_over(file: Path, pid: str) -> bool:
    """True if the process that wrote a file has ended, or is this one, which has no files in flight
    yet.

    A process of that number which began after the file was last written is another: numbers come
    again. One that ended keeps its number until its parent asks how, which the first process of a
    container may never do.
    """
    if not pid.isdigit() or int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    with contextlib.suppress(OSError):  # the process or the file went, or the system does not say
        state, *fields = (
            (_PROCESSES / pid / "stat").read_text(errors="replace").rpartition(")")[2].split()
        )
        up = float((_PROCESSES / "uptime").read_text().split()[0])
        age = up - int(fields[18]) / os.sysconf("SC_CLK_TCK")
        return state in "ZX" or age + _TICK < time.time() - file.stat().st_mtime
    return False


def output_of(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[bytes, bytes]:
    """The output of a process until it ends, and the first bytes of its standard error.

    All of the latter is read and little of it kept, because a process can say any number of bytes.
    """
    # `communicate` would keep all that it reads.
    complaint, process.stderr = process.stderr, None
    assert complaint
    with process, complaint, ThreadPoolExecutor(1) as beside:
        beginning = beside.submit(_beginning, complaint)
        printed, _ = process.communicate(stdin)
    return printed, beginning.result()


def _beginning(stream: IO[bytes]) -> bytes:
    head = b""
    while block := os.read(stream.fileno(), _READ_AT_ONCE):
        head += block[: _KEPT_BYTES - len(head)]
    return head


def end_with_parent() -> None:
    """End this process, which multiprocessing started, when the one that started it has ended."""
    import multiprocessing  # a search beside a server does without

    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def end_started() -> None:
    """Kill all descendants of this process, including those in sessions of their own; none begins
    after.

    A thread that is about to start one, such as those that copy a run's output for Dagster, waits
    forever instead. One that is past that point does start it, hence the second look. All are
    stopped before the first is killed: a process that one of them starts meanwhile would no longer
    be known as a descendant.
    """
    for owner, name in _STARTS:
        setattr(owner, name, lambda *_, **__: threading.Event().wait())
    stopped: set[int] = set()
    looks_in_vain = 0
    while looks_in_vain < 2:
        pids = set(_started_by(os.getpid(), _parents())) - stopped
        _send(signal.SIGSTOP, pids)
        stopped |= pids
        looks_in_vain = 0 if pids else looks_in_vain + 1
    _send(signal.SIGKILL, stopped)


def _send(number: signal.Signals, processes: set[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


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
            parents[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
    return parents
