"""Long work: its threads, the memory that it gives back, and its progress in the log or on a
terminal.
"""

import contextlib
import ctypes
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from assets.protocols.lake import Progress

MANY_BYTES = 256 << 20
"""Bytes of files from which a second thread of DuckDB saves time; with less it mainly takes more of
the processors.
"""


def give_memory_back() -> None:
    """Return unused memory of this process to the system: gigabytes after millions of texts."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # of the GNU library alone
        ctypes.CDLL(None).malloc_trim(0)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], limit: int
) -> Iterator[Result]:
    """`function` of each item, in order; at most `limit` calls run at once, and no more than there
    are processors.
    """
    at_once = min(os.cpu_count() or 1, limit)
    with ThreadPoolExecutor(at_once) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > at_once:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextlib.contextmanager
def other_thread(
    database: duckdb.DuckDBPyConnection, statements: Iterable[str]
) -> Iterator[Callable[..., Future[Any]]]:
    """Start work in one other thread, on another connection to a database, which begins with some
    statements.

    `start(work, *arguments)` calls `work(connection, *arguments)`, one after another. A failure of
    this thread ends the work of the other.
    """
    started: list[Future[Any]] = []
    with database.cursor() as connection, ThreadPoolExecutor(1) as thread:
        for statement in statements:
            connection.execute(statement)

        def start(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
            started.append(thread.submit(work, connection, *arguments))
            return started[-1]

        with contextlib.ExitStack() as cleanup:
            cleanup.callback(_interrupt, connection, started)
            yield start
            cleanup.pop_all()


def _interrupt(connection: duckdb.DuckDBPyConnection, work: Sequence[Future[Any]]) -> None:
    """End the work of a connection; repeated, as an interrupt ends one statement, and there may be
    none at the moment.
    """
    while wait(work, timeout=0.05).not_done:
        connection.interrupt()


class LoggedProgress:
    """Progress as debug lines of the logger `weft`."""

    def expect(self, stage: str, rows: int) -> None:
        """Log how much there is to do."""
        logging.getLogger("weft").debug("%s: %d rows to do", stage, rows)

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Log one finished piece."""
        logging.getLogger("weft").debug("%s %s: %d rows", stage, partition or "", rows)


class Phases:
    """The phases of one long step as stages of its progress: each has the time until the next one
    begins.
    """

    def __init__(self, progress: Progress):
        self.progress = progress
        self._phase: str | None = None

    def begin(self, phase: str) -> None:
        """End the phase that runs, and begin the next."""
        if self._phase:
            self.step(self._phase, 0)
        self.step(phase, 0)
        self._phase = phase

    def step(self, phase: str, rows: int) -> None:
        """Count more rows of a phase."""
        self.progress.step(phase, None, rows)


class CountedProgress:
    """Adds up rows, time and processor time per stage, and reports every step to `tell`."""

    def __init__(self, tell: Callable[[str, str | None, int], None]):
        self.tell = tell
        self.rows: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self._last, self._used = time.monotonic(), time.process_time()
        self._expected: dict[str, tuple[int, int, float]] = {}

    def expect(self, stage: str, rows: int) -> None:
        """From now on every step of `stage` tells, in place of a partition, how far it is and when
        it ends.
        """
        self._expected[stage] = (rows, self.rows.get(stage, 0), time.monotonic())

    def step(
        self, stage: str, partition: str | None, rows: int, processor: float | None = None
    ) -> None:
        """Count one finished piece; the time since the last step goes to its stage.

        So does the processor time of this process, or that of another one that made the piece.
        """
        now, used = time.monotonic(), time.process_time()
        own = used - self._used if processor is None else processor
        self.processor[stage] = self.processor.get(stage, 0.0) + own
        self._used = used
        self.rows[stage] = self.rows.get(stage, 0) + rows
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
        self.tell(stage, partition or self._outlook(stage, now), rows)

    def _outlook(self, stage: str, now: float) -> str | None:
        """Share, rate and time left of a stage whose end is known."""
        if stage not in self._expected:
            return None
        total, before, start = self._expected[stage]
        done = self.rows[stage] - before
        rate = done / max(now - start, 1e-9)
        remaining = timedelta(seconds=round((total - done) / rate)) if done else "unknown time"
        return f"of {total:,}, {rate:,.0f}/s, {remaining} left"
