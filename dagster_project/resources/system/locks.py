"""Who may change what Weft made: one build at a time, one process per lane, and turns at the lake between them."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from transforms.errors import BusyError

_LOOKS, _LONGEST_LOOK = 3, 0.02
"""Who looks whether a lock is held has it for less than so many seconds: it is asked for so many times."""
BUILD_LOCK, LAKE_LOCK, DOOR_LOCK = ".build.lock", ".lake.lock", ".door.lock"


@contextlib.contextmanager
def only_build(root: Path) -> Iterator[None]:
    """Hold the build lock of a storage root and a turn at its lake; BusyError if another build holds the lock.

    Locks belong to the process and go with it, however it ends.
    """
    with _held(root / BUILD_LOCK, f"another build of {root} is running; wait for it to end"), turn(root):
        yield


@contextlib.contextmanager
def not_building(root: Path) -> Iterator[None]:
    """Hold the build lock for a look around, without a turn at the lake; BusyError if a build holds it."""
    with _held(root / BUILD_LOCK, f"another build of {root} is running; wait for it to end"):
        yield


@contextlib.contextmanager
def only_lane(root: Path, lane: str) -> Iterator[None]:
    """Hold the lock of the work called `lane`, beside which builds go on; BusyError if another process holds it."""
    with _held(lane_lock(root, lane), f"the {lane} work of {root} is under way already; wait for it to end"):
        yield


def lane_lock(root: Path, lane: str) -> Path:
    """The file behind `only_lane`."""
    return root / f".{lane}.lock"


def is_held(lock: Path) -> bool:
    """True if a living process holds the lock; looks and leaves no trace, on a disk that is mounted read-only too."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextlib.contextmanager
def turn(root: Path) -> Iterator[None]:
    """Wait for a turn at the lake of a storage root and keep it.

    Who waits keeps the door, so that what works in many short turns lets a build in after the one it is at.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / DOOR_LOCK).open("a") as door, (root / LAKE_LOCK).open("a") as lake:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(lake, fcntl.LOCK_EX)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _held(lock: Path, busy: str) -> Iterator[IO[str]]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        for looks_left in reversed(range(_LOOKS)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not looks_left:
                    raise BusyError(busy) from error
                time.sleep(_LONGEST_LOOK)
            else:
                break
        yield file
