"""Faults of DuckDB while it reads a published file, by type: of the query, of memory, of the file, of the disk."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from dagster_project.resources.publish.versions import attach
from transforms.errors import (
    IndexUnavailableError,
    MemoryLimitError,
    QueryError,
    QueryInterruptedError,
    WeftError,
)

_OF_QUERY = (
    duckdb.DataError,
    duckdb.ProgrammingError,
    duckdb.NotSupportedError,
    duckdb.IntegrityError,
    duckdb.PermissionException,
)
_OF_TABLES = (duckdb.CatalogException, duckdb.BinderException)
"""What Weft's own statements meet where a file lacks a table or a column."""
_NEEDED = {"manifest", "chunks", "postings", "terms", "embeddings"}
_READ_AT_ONCE = 1 << 22


@contextmanager
def faults_translated(path: Path, *, own: bool = True) -> Iterator[None]:
    """Faults of DuckDB while it reads the published file `path`, as faults of Weft; `own` if the statements are Weft's."""
    try:
        yield
    except duckdb.Error as error:
        raise translated(error, path, own=own) from error


def translated(error: duckdb.Error, path: Path, *, own: bool = True) -> WeftError:
    """What a fault means to the caller; only a file whose damage has been seen is to be deleted."""
    message = first_line(error)
    if isinstance(error, duckdb.InterruptException):
        return QueryInterruptedError("the query was interrupted before it had an answer")
    if isinstance(error, duckdb.OutOfMemoryException):
        return MemoryLimitError(
            f"there is not enough memory for this query ({message}): ask for less at once, or end other programs"
        )
    if isinstance(error, _OF_QUERY) and not (own and isinstance(error, _OF_TABLES)):
        return QueryError(f"the query cannot be answered: {message}" if own else str(error))
    try:
        damage = damage_of(path)
    except OSError as refused:
        return IndexUnavailableError(
            f"{path} cannot be read ({refused}): look at its rights and at the disk, nothing says that it is damaged; "
            "`weft build` publishes another version when there is something new"
        )
    except duckdb.OutOfMemoryException:
        damage = None
    if damage is not None:
        return IndexUnavailableError(
            f"{path} cannot be read as a published index ({damage}); delete it and run `weft build`, which publishes "
            "a new one"
        )
    return WeftError(
        f"DuckDB failed ({message}), though all of {path} can be read: ask again; if it fails again, `weft doctor` says "
        "what else is not well"
    )


def damage_of(path: Path) -> str | None:
    """What is wrong with the bytes of a published file, all of which are read; None if nothing is.

    OSError if the system refuses to give them.
    """
    with path.open("rb") as file:
        while file.read(_READ_AT_ONCE):
            pass
    try:
        # An instance of its own: that of the fault may be of no use any more.
        with duckdb.connect() as connection:
            attach(connection, path, "examined")
            tables, views = (
                connection.execute(
                    f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE database_name = 'examined' ORDER BY ALL"
                ).fetchall()
                for kind in ("table", "view")
            )
            for (table,) in tables:
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" t')
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        # DuckDB has no type of its own for a file that another process writes to.
        if "Could not set lock" in str(error):
            raise OSError(errno.EBUSY, first_line(error)) from error
        return first_line(error)
    missing = sorted(_NEEDED - {name for (name,) in (*tables, *views)})
    return f"it has no table {', '.join(missing)}" if missing else None


def first_line(error: Exception) -> str:
    """What an error says first."""
    return (str(error).splitlines() or [type(error).__name__])[0]
