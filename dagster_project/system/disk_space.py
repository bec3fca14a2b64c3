"""Whether a fault comes of a full disk or of one that may not be written, and its message."""

import errno
import os
from pathlib import Path

from dagster_project.system.globs import NO_WRITING
from transforms.errors import UnwritableError, WeftError

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TEXTS = ("No space left on device", "disk is full", "Disk quota exceeded", "File too large")
IN_THE_WAY = (IsADirectoryError, NotADirectoryError, FileExistsError)
"""Errors raised when a file is where a folder belongs, or the reverse."""
_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_TEXTS_OF_MACHINE = tuple(map(os.strerror, _OF_MACHINE))
_TEXTS_OF_NO_WRITING = ("Read-only file system", "readonly database")


def is_of_full_disk(error: BaseException) -> bool:
    """True if an error says that a disk is full, or that a quota or the maximum file size is
    reached.
    """
    return getattr(error, "errno", None) in _NUMBERS or any(text in str(error) for text in _TEXTS)


def raise_of_machine(error: BaseException) -> None:
    """WeftError if an error says that the machine has no more open files or memory to give: the
    file itself is sound.
    """
    if getattr(error, "errno", None) in _OF_MACHINE or any(
        text in str(error) for text in _TEXTS_OF_MACHINE
    ):
        raise WeftError(
            f"{str(error).splitlines()[0]}: raise `ulimit -n`, or end other programs"
        ) from error


def is_of_no_writing(error: BaseException) -> bool:
    """True if an error says that a disk is mounted read-only, or that the right to write a file is
    missing.
    """
    if isinstance(error, OSError):
        return error.errno in NO_WRITING
    return any(text in str(error) for text in _TEXTS_OF_NO_WRITING)


def unwritable(error: BaseException, root: Path) -> UnwritableError:
    """The error for a file that cannot be written, or for the storage root if the error names no
    file.
    """
    filename = error.filename if isinstance(error, OSError) else None
    reason = (isinstance(error, OSError) and error.strerror) or str(error).splitlines()[0]
    refused = "used" if isinstance(error, PermissionError) else "written"
    return UnwritableError(
        f"{filename or root} cannot be {refused} by user {os.getuid()} ({reason}): give it the right to write in "
        f"{root}, or mount that so that it can be written; reading the published version needs neither"
    )


def may_be_written(folder: Path) -> bool:
    """False for a folder that exists and may not be written."""
    return not folder.exists() or os.access(folder, os.W_OK | os.X_OK)


def may_be_made(place: Path) -> bool:
    """True if a file or folder may be written, or made in the first folder above it that exists."""
    return os.access(next(p for p in (place, *place.parents) if p.exists()), os.W_OK)


def require_writable(folder: Path, root: Path) -> None:
    """UnwritableError if the folder exists and may not be written."""
    if not may_be_written(folder):
        reason = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
        raise unwritable(OSError(reason, os.strerror(reason), str(folder)), root)
