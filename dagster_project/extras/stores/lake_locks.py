"""Locks of a lake on an object store, for processes that share no disk: a queue of claims.

A claim is an object whose name is a number. It is put under a number that no claim has, which the
store refuses to all but one (a conditional put: If-None-Match of S3 and Azure, ifGenerationMatch of
Google). A process that finds all claims before its own compatible holds the lock. A claim says
until when it counts and is renewed while its process lives; a waiter releases one that ran out, so
that a killed process of another machine keeps nobody out for longer than that.

Numbers only grow: a claim is deleted only if there is a higher one, and the highest stays,
released, for the next to see. Renewal and release are conditional, too (If-Match): of a holder that
renews and a waiter that releases, one is refused. So a holder learns that it lost its claim, and
`require_leases` fails before it writes. Clocks may differ by less than a lease.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from upath import UPath

from dagster_project.system.locks import HELD, require_leases
from transforms.errors import BusyError

LEASE = 120.0
"""Seconds for which a claim counts since it was put or renewed."""
_RENEWALS = 4
"""In the time of a lease."""
_PAUSE = 1.0
"""Seconds between two looks at the claims of others."""
_S3 = ("s3", "s3a")
_CONDITION_FAILED = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_REFUSED = (FileExistsError, FileNotFoundError)
"""Exceptions of a conditional put if the claim is another by now, or gone."""


@dataclass(frozen=True)
class _Claim:
    """Who claims, whether others may share, and the second of the epoch until which the claim
    counts; 0 if released.
    """

    machine: str
    process: int
    shared: bool
    until: float
    owner: str = ""

    @property
    def is_dead(self) -> bool:
        """True if it was released or ran out, or its process was one of this machine and is gone."""
        if self.machine == _machine():
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                pass
        return self.until < time.time()


class _Lease:
    """A claim of this process while it is held: until when it counts by this machine's own clock,
    and whether it is lost.
    """

    def __init__(self, queue: _Queue):
        self.queue, self.process, self.place = queue, os.getpid(), str(queue.folder)
        self.number, self.tag, self.ends = queue.join()
        self.is_lost = False
        self.over = threading.Event()

    def renew(self) -> None:
        """Let the claim count for longer, again and again, until it is over or lost."""
        while not self.over.wait(LEASE / _RENEWALS):
            start = time.monotonic()
            try:
                self.tag = self.queue.renewed(self.number, self.tag)
            except _REFUSED:
                self.is_lost = True
                return
            except Exception:  # noqa: BLE001, S112  # stores have faults of their own; the next renewal comes in time
                continue
            self.ends = start + LEASE

    @property
    def counts(self) -> bool:
        """False if another process may hold the lock by now."""
        return not self.is_lost and time.monotonic() < self.ends


@contextmanager
def store_lock(
    lake: str,
    name: str,
    *,
    exclusive: bool = True,
    waits: bool = True,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold a lock of the lake at an address, shared or exclusive.

    Later processes wait, so that many that share it cannot keep out one that wants it alone.
    `on_wait` is called before waiting. Without `waits` BusyError names the holder at once.
    """
    queue = _Queue(UPath(lake, use_listings_cache=False) / ".locks" / name, exclusive)
    lease = _Lease(queue)
    renewing = threading.Thread(target=lease.renew, daemon=True)
    renewing.start()
    try:
        if others := queue.before(lease.number):
            if not waits:
                holder = f"process {others[0].process} on {others[0].machine.partition(' ')[0]}"
                raise BusyError(f"another build of {lake} is running, {holder}; await its end")
            on_wait()
            while queue.before(lease.number):
                time.sleep(_PAUSE)
        HELD.add(lease)
        require_leases()
        yield
    finally:
        HELD.discard(lease)
        lease.over.set()
        renewing.join()
        queue.leave(lease.number, lease.tag)


class _Queue:
    def __init__(self, folder: UPath, exclusive: bool):
        self.folder, self.exclusive = folder, exclusive
        self._owner = secrets.token_hex(8)

    def join(self) -> tuple[int, str, float]:
        """Put a claim behind all others: its number, its tag, and until when it counts by the
        monotonic clock.
        """
        while True:
            number, start = max(self._numbers(), default=0) + 1, time.monotonic()
            with suppress(FileExistsError):
                return number, self._put(number, self._own(), mode="create"), start + LEASE

    def renewed(self, number: int, tag: str) -> str:
        """Let a claim with this tag count for longer; its new tag. One of _REFUSED if it is
        another's by now, or gone.
        """
        claim = self._own()
        try:
            return self._replace(number, claim, tag)
        except _REFUSED:
            # The answer to the first try may be lost, and the store was asked again.
            now, other = self._claim(number)
            if other != claim:
                raise
            return now

    def before(self, number: int) -> list[_Claim]:
        """The claims before one with which it cannot share; those that ran out are released and
        deleted.
        """
        claims = []
        for earlier in sorted(n for n in self._numbers() if n < number):
            tag, claim = self._claim(earlier)
            if claim is not None and claim.is_dead:
                if claim.until:
                    with suppress(*_REFUSED):
                        self._replace(earlier, replace(claim, until=0.0), tag)
                else:
                    self._delete(earlier)
            elif claim is not None and (self.exclusive or not claim.shared):
                claims.append(claim)
        return claims

    def leave(self, number: int, tag: str) -> None:
        """Release a claim, and delete it if there is a higher one."""
        with suppress(*_REFUSED):
            self._replace(number, replace(self._own(), until=0.0), tag)
            if max(self._numbers(), default=0) > number:
                self._delete(number)

    def _own(self) -> _Claim:
        return _Claim(_machine(), os.getpid(), not self.exclusive, time.time() + LEASE, self._owner)

    def _numbers(self) -> list[int]:
        try:
            names = self.folder.fs.ls(self.folder.path, detail=False)
        except FileNotFoundError:
            return []
        return [int(name) for place in names if (name := place.rpartition("/")[2]).isdigit()]

    def _claim(self, number: int) -> tuple[str, _Claim | None]:
        """The tag and the content of a claim; if it changes between the two requests, the tag is of
        the past.
        """
        try:
            tag = str(self.folder.fs.info(self._place(number)).get("ETag", ""))
            return tag, _Claim(**json.loads(self.folder.fs.cat_file(self._place(number))))
        except FileNotFoundError:
            return "", None

    def _replace(self, number: int, claim: _Claim, tag: str) -> str:
        """Put a claim in place of the one with this tag; its tag. One of _REFUSED if there is
        another by now, or none.
        """
        if self.folder.protocol in _S3:
            try:
                return self._put(number, claim, IfMatch=tag)
            except OSError as error:
                answer = getattr(error.__cause__, "response", None) or {}
                if answer.get("Error", {}).get("Code") in _CONDITION_FAILED:
                    raise FileExistsError(self._place(number)) from error
                raise
        _, current = self._claim(
            number
        )  # fsspec has no such condition for others: the time between is short
        if current is None or (current.owner != claim.owner and current.owner):
            raise FileNotFoundError(self._place(number))
        return self._put(number, claim, mode="overwrite")

    def _put(self, number: int, claim: _Claim, **condition: str) -> str:
        data = json.dumps(asdict(claim)).encode()
        answer = self.folder.fs.pipe_file(self._place(number), data, **condition)
        return str(answer.get("ETag", "")) if isinstance(answer, dict) else ""

    def _delete(self, number: int) -> None:
        with suppress(FileNotFoundError):
            self.folder.fs.rm_file(self._place(number))

    def _place(self, number: int) -> str:
        return f"{self.folder.path}/{number:012d}"


def _machine() -> str:
    """The name of this machine, and of the numbers of its processes: containers may share the one
    and not the other.
    """
    numbers = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {numbers.readlink() if numbers.is_symlink() else ''}".strip()
