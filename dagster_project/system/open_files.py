"""Deleted files that programs still hold, as Linux says it: their bytes stay until all of them let
go.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")
_DELETED = " (deleted)"
_PAUSE = 0.25


def programs_with_deleted(folder: Path, seconds: float) -> list[str] | None:
    """The programs that hold a deleted file of a folder after at most so many seconds: number and
    command line of each that this user may look into.

    None if the system does not say it.
    """
    if not (_PROCESSES / "self" / "maps").exists():
        return None
    end = time.monotonic() + seconds
    while (programs := [*_holding(folder.resolve())]) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return programs


def deleted_files(process: Path, folder: Path) -> set[str]:
    """The deleted files of a folder that a process, by its folder in /proc, has open or mapped."""
    opened = [
        str(handle.readlink()) for handle in (process / "fd").iterdir() if handle.is_symlink()
    ]
    mapped = (process / "maps").read_text(errors="replace").splitlines()
    names = {*opened, *(line[line.find("/") :] for line in mapped)}
    return {n for n in names if n.startswith(f"{folder}{os.sep}") and n.endswith(_DELETED)}


def _holding(folder: Path) -> Iterator[str]:
    for process in sorted(_PROCESSES.glob("[0-9]*")):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if deleted_files(process, folder):
                command = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                yield f"{process.name} {command.decode(errors='replace')}"
