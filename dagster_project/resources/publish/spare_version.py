"""A published version that nobody needs any more, kept to become the next one: changing it spares copying a large file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from dagster_project.resources.arrays.arrays import folder_of

_FILE = ".spare.duckdb"
_AT_ONCE = 1 << 24
_PROCESSES = Path("/proc")
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)


def spare_of(folder: Path) -> Path | None:
    """The spare version in the folder of the published files, if there is one that can be changed unseen.

    Not if any process, this one included, has it open, or it has another name, such as in a backup of hard links.
    """
    spare = folder / _FILE
    try:
        is_alone = spare.stat().st_nlink == 1 and not _is_open(spare)
    except (OSError, AttributeError):  # where the system cannot tell
        return None
    return spare if is_alone else None


def keep_as_spare(version: Path) -> None:
    """Make a version the spare one, with its arrays, in place of the one that was."""
    drop_spare(version.parent)
    spare = version.with_name(_FILE)
    if folder_of(version).exists():
        folder_of(version).replace(folder_of(spare))
    version.replace(spare)


def drop_spare(folder: Path) -> None:
    """Delete the spare version, if there is one."""
    spare = folder / _FILE
    shutil.rmtree(folder_of(spare), ignore_errors=True)
    spare.unlink(missing_ok=True)


def begun(base: Path, building: Path, *, in_place: bool) -> Path:
    """Let a version that is built begin as `base`, a copy of it or itself; where the arrays of that are."""
    arrays = folder_of(base)
    if not in_place:
        _copy(base, building)
        return arrays
    base.replace(building)
    if not arrays.exists():
        return arrays
    return arrays.replace(building.with_name(f"{building.stem}-before.arrays"))


def _copy(source: Path, target: Path) -> None:
    """Copy a file; where the file system can, the copy shares its blocks until they are written to."""
    with source.open("rb") as read, target.open("xb") as write:
        left = source.stat().st_size
        try:
            while left and (done := os.copy_file_range(read.fileno(), write.fileno(), left)):
                left -= done
        except OSError:
            if left != source.stat().st_size:
                raise
            shutil.copyfileobj(read, write, _AT_ONCE)


def _is_open(file: Path) -> bool:
    """True if any process has the file open; raises OSError or AttributeError where that cannot be asked.

    Who reads it holds a lock, which shows readers of other users and machines. But a process loses its lock when it
    opens the file once more and closes it: of the processes that this one may look into, the open files are asked for.
    """
    with file.open("r+b") as handle:
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except (BlockingIOError, PermissionError):
            return True
    wanted = file.stat()
    own = list((_PROCESSES / "self" / "fd").iterdir())
    return any(_is_same(path, wanted) for path in (*own, *_open_files()))


def _open_files() -> Iterator[Path]:
    """Links to the open files of all processes that this one may look into."""
    for process in _PROCESSES.iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                yield from (process / "fd").iterdir()


def _is_same(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except OSError:  # closed meanwhile
        return False
