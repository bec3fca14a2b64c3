"""Translation of the faults that DuckDB, SQLite and Dagster raise on a full or read-only disk."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
from sqlalchemy.exc import DBAPIError

from dagster_project.system.disk_space import is_of_full_disk, is_of_no_writing, unwritable
from transforms.errors import DiskFullError, UnwritableError, WeftError

_OF_SQLITE = (DBAPIError, sqlite3.Error)
_NO_ROOM = 1 << 20


@contextlib.contextmanager
def translate_disk_faults(root: Path) -> Iterator[None]:
    """Raise faults of a full disk as DiskFullError, and of one that may not be written as
    UnwritableError.
    """
    try:
        yield
    except (DiskFullError, UnwritableError):
        raise
    except (OSError, duckdb.Error, *_OF_SQLITE, WeftError) as error:
        free = shutil.disk_usage(root).free if root.exists() else 0
        # SQLite has one fault for all that a disk refuses, the memory it shares with its readers on
        # a full one among it.
        is_full = is_of_full_disk(error) or (isinstance(error, _OF_SQLITE) and free < _NO_ROOM)
        if not is_full and is_of_no_writing(error):
            raise unwritable(error, root) from error
        if not is_full:
            raise
        reason = str(error).splitlines()[0]
        raise DiskFullError(
            f"no room is left on the disk of {root} ({free:,} bytes free): make room, then `weft build` goes on where "
            f"this one stopped; the published version stays as it was ({reason})"
        ) from error
