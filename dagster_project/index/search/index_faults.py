"""Faults of DuckDB while it reads a published file, by type: of the query, of memory, of the file,
of the disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from dagster_project.index.publish.versions import damage_of, first_line
from transforms import errors

OF_QUERY = (
    duckdb.DataError,
    duckdb.ProgrammingError,
    duckdb.NotSupportedError,
    duckdb.IntegrityError,
    duckdb.PermissionException,
)
"""Faults that the statement is the cause of."""
_OF_TABLES = (duckdb.CatalogException, duckdb.BinderException)
"""Faults of Weft's own statements on a file that lacks a table or a column."""


@contextmanager
def faults_translated(path: Path, *, own: bool = True) -> Iterator[None]:
    """Faults of DuckDB while it reads the published file `path`, as faults of Weft; `own` if the
    statements are Weft's.
    """
    try:
        yield
    except duckdb.Error as error:
        raise translated(error, path, own=own) from error


def translated(error: duckdb.Error, path: Path, *, own: bool = True) -> errors.WeftError:
    """The fault for the caller; it says to delete a file only if its damage has been seen."""
    message = first_line(error)
    if isinstance(error, duckdb.InterruptException):
        return errors.QueryInterruptedError("the query was interrupted before it had an answer")
    if isinstance(error, duckdb.OutOfMemoryException):
        return errors.MemoryLimitError(
            f"there is not enough memory for this query ({message}): ask for less at once, or end other programs"
        )
    if isinstance(error, OF_QUERY) and not (own and isinstance(error, _OF_TABLES)):
        return errors.QueryError(f"the query cannot be answered: {message}" if own else str(error))
    try:
        damage = damage_of(path)
    except OSError as refused:
        return errors.IndexUnavailableError(
            f"{path} cannot be read ({refused}): look at its rights and at the disk, nothing says that it is damaged; "
            "`weft build` publishes another version when there is something new"
        )
    except duckdb.OutOfMemoryException:
        damage = None
    if damage is not None:
        return errors.IndexUnavailableError(
            f"{path} cannot be read as a published index ({damage}); delete it and run `weft build`, which publishes "
            "a new one"
        )
    return errors.WeftError(
        f"DuckDB failed ({message}), though all of {path} can be read: ask again; if it fails again, `weft doctor` says "
        "what else is not well"
    )
