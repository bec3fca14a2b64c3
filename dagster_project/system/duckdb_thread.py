"""Work on a database of DuckDB in one other thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import duckdb


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
