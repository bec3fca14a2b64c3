"""Whether a process that left a file behind is still alive, and what this one holds of memory."""

from __future__ import annotations

import contextlib
import ctypes
import os

import pyarrow as pa


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


def give_memory_back() -> None:
    """Give the system what this process holds of memory without using it: gigabytes after millions of texts."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # of the GNU library alone
        ctypes.CDLL(None).malloc_trim(0)
