"""Threads and memory of long work: mapping in order by threads, one thread for a database, memory given back."""

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

MANY_BYTES = 256 << 20
"""Bytes of files from which a second thread of DuckDB saves time; with less it mainly takes more of the processors."""


def give_memory_back() -> None:
    """Return unused memory of this process to the system: gigabytes after millions of texts."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # of the GNU library alone
        ctypes.CDLL(None).malloc_trim(0)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], limit: int) -> Iterator[Result]:
    """`function` of each item, in order; at most `limit` calls run at once, and no more than there are processors."""
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
    """Start work in one other thread, on another connection to a database, which begins with some statements.

    `start(work, *arguments)` calls `work(connection, *arguments)`, one after another. A failure of this thread ends
    the work of the other.
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
    """End the work of a connection; repeated, as an interrupt ends one statement, and there may be none at the moment."""
    while wait(work, timeout=0.05).not_done:
        connection.interrupt()
