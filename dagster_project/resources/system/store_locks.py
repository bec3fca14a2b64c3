"""Locks of a lake on an object store, for processes that share no disk: a queue of claims.

A claim is an object whose name is a number. It is put under a number that no claim has, which the store refuses to all but
one (a conditional put: If-None-Match of S3 and Azure, ifGenerationMatch of Google). Whoever finds all claims before its own
compatible holds the lock. A claim says until when it counts and is renewed while its process lives; one that ran out counts
nothing, so that a killed process of another machine keeps nobody out for longer than that. Clocks may differ by less.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from upath import UPath

from transforms.errors import BusyError

LEASE = 120.0
"""Seconds for which a claim counts since it was put or renewed."""
_RENEWALS = 4
"""In the time of a lease."""
_PAUSE = 1.0
"""Seconds between two looks at the claims of others."""


@dataclass(frozen=True)
class _Claim:
    """Who claims, whether others may share, and the second of the epoch until which the claim counts."""

    machine: str
    process: int
    shared: bool
    until: float

    @property
    def is_dead(self) -> bool:
        """True if it ran out, or its process was one of this machine and is gone."""
        if self.machine == _machine():
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                pass
        return self.until < time.time()


@contextmanager
def store_lock(
    lake: str,
    name: str,
    *,
    exclusive: bool = True,
    waits: bool = True,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold a lock of the lake at an address, shared or exclusive; nothing if that is a folder, whose files have locks.

    Whoever comes later waits, so that many who share it cannot keep out one who wants it alone. `on_wait` is called before
    waiting. Without `waits` BusyError names the holder at once.
    """
    if "://" not in lake or lake.startswith(("file://", "local://")):
        yield
        return
    queue = _Queue(UPath(lake, use_listings_cache=False) / ".locks" / name, exclusive)
    number = queue.join()
    over = threading.Event()
    renewing = threading.Thread(target=queue.renew, args=(number, over), daemon=True)
    renewing.start()
    try:
        if others := queue.before(number):
            if not waits:
                raise BusyError(
                    f"another build of {lake} is running, {_named(others[0])}; wait for it to end"
                )
            on_wait()
            while queue.before(number):
                time.sleep(_PAUSE)
        yield
    finally:
        over.set()
        renewing.join()
        queue.leave(number)


class _Queue:
    """The claims of one lock."""

    def __init__(self, folder: UPath, exclusive: bool):
        self.folder, self.exclusive = folder, exclusive

    def join(self) -> int:
        """Put a claim behind all others; its number."""
        while True:
            number = max(self._numbers(), default=0) + 1
            with suppress(FileExistsError):
                self._put(number, mode="create")
                return number

    def renew(self, number: int, over: threading.Event) -> None:
        """Let a claim count for longer, again and again, until it is over or was taken for that of a dead process."""
        while not over.wait(LEASE / _RENEWALS):
            with suppress(
                Exception
            ):  # stores have faults of their own, and the next renewal comes before the lease ends
                if self._claim(number) is None:
                    return
                self._put(number, mode="overwrite")

    def before(self, number: int) -> list[_Claim]:
        """The claims before one with which it cannot share; those that ran out are taken away."""
        found = []
        for earlier in sorted(n for n in self._numbers() if n < number):
            claim = self._claim(earlier)
            if claim is not None and claim.is_dead:
                self.leave(earlier)
            elif claim is not None and (self.exclusive or not claim.shared):
                found.append(claim)
        return found

    def leave(self, number: int) -> None:
        """Take a claim away."""
        with suppress(FileNotFoundError):
            self.folder.fs.rm_file(self._place(number))

    def _numbers(self) -> list[int]:
        try:
            names = self.folder.fs.ls(self.folder.path, detail=False)
        except FileNotFoundError:
            return []
        return [int(name) for place in names if (name := place.rpartition("/")[2]).isdigit()]

    def _claim(self, number: int) -> _Claim | None:
        try:
            return _Claim(**json.loads(self.folder.fs.cat_file(self._place(number))))
        except FileNotFoundError:
            return None

    def _put(self, number: int, mode: str) -> None:
        claim = _Claim(_machine(), os.getpid(), not self.exclusive, time.time() + LEASE)
        self.folder.fs.pipe_file(self._place(number), json.dumps(asdict(claim)).encode(), mode=mode)

    def _place(self, number: int) -> str:
        return f"{self.folder.path}/{number:012d}"


def _machine() -> str:
    """The name of this machine, and of the numbers of its processes: containers may share the one and not the other."""
    numbers = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {numbers.readlink() if numbers.is_symlink() else ''}".strip()


def _named(claim: _Claim) -> str:
    return f"process {claim.process} on {claim.machine.partition(' ')[0]}"
