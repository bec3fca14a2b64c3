"""Whether a fault comes of a full disk, and what to tell then."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
from sqlalchemy.exc import DBAPIError

from transforms.errors import DiskFullError, WeftError

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OF_SQLITE = (DBAPIError, sqlite3.Error)
_NO_ROOM = 1 << 20
_TEXTS = ("No space left on device", "disk is full", "Disk quota exceeded", "File too large")


@contextlib.contextmanager
def disk_watched(root: Path) -> Iterator[None]:
    """Faults that come of a full disk, as DiskFullError."""
    try:
        yield
    except DiskFullError:
        raise
    except (OSError, duckdb.Error, *_OF_SQLITE, WeftError) as error:
        free = shutil.disk_usage(root).free if root.exists() else 0
        # SQLite has one fault for all that a disk refuses, the memory it shares with its readers on a full one among it.
        is_full = is_of_full_disk(error) or (isinstance(error, _OF_SQLITE) and free < _NO_ROOM)
        if not is_full:
            raise
        reason = str(error).splitlines()[0]
        raise DiskFullError(
            f"no room is left on the disk of {root} ({free:,} bytes free): make room, then `weft build` goes on where "
            f"this one stopped; what is published stays as it was ({reason})"
        ) from error


def is_of_full_disk(error: BaseException) -> bool:
    """True if a fault says that a disk, a quota or the largest size of a file is reached."""
    if isinstance(error, OSError):
        return error.errno in _NUMBERS or any(text in str(error) for text in _TEXTS)
    return any(text in str(error) for text in _TEXTS)
