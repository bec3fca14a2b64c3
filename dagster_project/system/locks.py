"""Locks of a storage root: one build at a time, readers and one writer of the lake, and the runs
that live.

The system releases a lock when the process that holds it ends, however it ends; one on an object
store runs out.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from dagster_project.extensions import store_part
from dagster_project.system.durable import make_private
from transforms.errors import BusyError

_TRIES, _PAUSE = 3, 0.02
"""`is_held` takes a lock for a moment, so a locker tries so many times, so many seconds apart."""
BUILD_LOCK, LAKE_LOCK, QUEUE_LOCK, RUNS = ".build.lock", ".lake.lock", ".queue.lock", ".runs"


class Lease(Protocol):
    """A lock on an object store that a process of this machine took."""

    process: int
    place: str

    @property
    def counts(self) -> bool:
        """False if another process may hold the lock by now."""


HELD: set[Lease] = set()
"""The locks on object stores under which this process works."""


def require_leases() -> None:
    """BusyError if this process has lost a lock on a store that it still works under: nothing may
    be written then.
    """
    for lease in list(HELD):
        if lease.process == os.getpid() and not lease.counts:
            raise BusyError(
                f"the lock {lease.place} was not renewed in time, so that another process may hold it: nothing more "
                "is written; see that this machine reaches the store, then `weft build` goes on"
            )


def _store_lock(
    lake: str, name: str, **how: bool | Callable[[], None]
) -> contextlib.AbstractContextManager[None]:
    """The lock of the lake at an address; nothing if that is a folder, whose files have locks."""
    if "://" not in lake or lake.startswith(("file://", "local://")):
        return contextlib.nullcontext()
    return store_part("lake_lock")(lake, name, **how)


@contextlib.contextmanager
def only_build(root: Path, lake: str = "") -> Iterator[None]:
    """Hold the build lock of a storage root and of a `lake` on an object store; BusyError if
    another build holds one.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / BUILD_LOCK).open("a") as file:
        for tries_left in reversed(range(_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not tries_left:
                    raise BusyError(
                        f"another build of {root} is running; wait for it to end"
                    ) from error
                time.sleep(_PAUSE)
            else:
                break
        with _store_lock(lake, "build", waits=False):
            yield


@contextlib.contextmanager
def lake_lock(
    root: Path, *, exclusive: bool, on_wait: Callable[[], None] = lambda: None, lake: str = ""
) -> Iterator[None]:
    """Hold the lake of a storage root: shared while partitions are made, exclusive while all of it
    is read and published.

    Processes wait in a queue, so that many that share it cannot keep out one that wants it alone.
    `on_wait` is called before waiting. One on an object store, at the address `lake`, is held
    there, too: builds with other roots may work on it.
    """
    root.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with (root / LAKE_LOCK).open("a") as file:
        with (root / QUEUE_LOCK).open("a") as queue:
            try:
                fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(queue, fcntl.LOCK_EX)
                fcntl.flock(file, kind)
        with _store_lock(lake, "lake", exclusive=exclusive, on_wait=on_wait):
            yield


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, in a folder of the owner's, as soon as nobody else does."""
    make_private(lock.parent)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def living_run(root: Path, run_id: str) -> Iterator[None]:
    """Hold the lock that says that the process of a run lives; its file goes with the run."""
    place = root / RUNS / run_id
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            place.unlink(missing_ok=True)


def runs_of(root: Path) -> dict[str, bool]:
    """By id of each run whose lock file is there, whether its process lives."""
    return {place.name: is_held(place) for place in sorted((root / RUNS).glob("*"))}


def forget_run(root: Path, run_id: str) -> None:
    """Remove the lock file of a run whose process is gone."""
    (root / RUNS / run_id).unlink(missing_ok=True)


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
