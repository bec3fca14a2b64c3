"""Whether a process that left a file behind is still alive."""

from __future__ import annotations

import os


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
