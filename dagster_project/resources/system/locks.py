"""Locks of a storage root: one build at a time, one process per queue, and turns at the lake between them."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from transforms.errors import BusyError

_TRIES, _PAUSE = 3, 0.02
"""`is_held` takes a lock for a moment, so a locker tries so many times, so many seconds apart."""
BUILD_LOCK, LAKE_LOCK, DOOR_LOCK = ".build.lock", ".lake.lock", ".door.lock"


@contextlib.contextmanager
def only_build(root: Path) -> Iterator[None]:
    """Hold the build lock of a storage root and a turn at its lake; BusyError if another build holds the lock.

    The system releases locks when their process ends, however it ends.
    """
    with _exclusive(root / BUILD_LOCK, f"another build of {root} is running; wait for it to end"), turn(root):
        yield


@contextlib.contextmanager
def not_building(root: Path) -> Iterator[None]:
    """Hold the build lock without a turn at the lake, in order to read; BusyError if a build holds it."""
    with _exclusive(root / BUILD_LOCK, f"another build of {root} is running; wait for it to end"):
        yield


@contextlib.contextmanager
def only_lane(root: Path, lane: str) -> Iterator[None]:
    """Hold the lock of the queue `lane`, which runs beside builds; BusyError if another process holds it."""
    with _exclusive(
        lane_lock(root, lane), f"the {lane} work of {root} is under way already; wait for it to end"
    ):
        yield


def lane_lock(root: Path, lane: str) -> Path:
    """The lock file of `only_lane`."""
    return root / f".{lane}.lock"


def is_held(lock: Path) -> bool:
    """True if a living process holds the lock; works on a disk that is mounted read-only, too."""
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
    """Wait for a turn at the lake of a storage root and hold it.

    A waiter holds the queue lock, so that a worker taking many short turns cannot starve a waiting build.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / DOOR_LOCK).open("a") as queue, (root / LAKE_LOCK).open("a") as lake:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lake, fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _exclusive(lock: Path, busy: str) -> Iterator[IO[str]]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        for tries_left in reversed(range(_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not tries_left:
                    raise BusyError(busy) from error
                time.sleep(_PAUSE)
            else:
                break
        yield file
