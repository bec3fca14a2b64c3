"""The spare version: an old version kept to become the next one, as changing it spares copying a large file."""

import contextlib
import fcntl
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from dagster_project.index.files.arrays import folder_of

_FILE = ".spare.duckdb"
_AT_ONCE = 1 << 24
_PROCESSES = Path("/proc")
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)


def spare_of(folder: Path) -> Path | None:
    """The spare version in the folder of the published files, if it exists and no one can see a change of it.

    None if any process, this one included, has it open, or if it has another hard link, such as in a backup.
    """
    spare = folder / _FILE
    try:
        is_alone = spare.stat().st_nlink == 1 and not _is_open(spare)
    except (OSError, AttributeError):  # where the system cannot tell
        return None
    return spare if is_alone else None


def keep_as_spare(version: Path) -> None:
    """Make a version the spare one, with its arrays; the previous spare version is deleted."""
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


def start_from(base: Path, building: Path, *, in_place: bool) -> Path:
    """Start a new version from `base`, by copying or moving it; returns the folder of its arrays."""
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
        remaining = source.stat().st_size
        try:
            while remaining and (copied := os.copy_file_range(read.fileno(), write.fileno(), remaining)):
                remaining -= copied
        except OSError:
            if remaining != source.stat().st_size:
                raise
            shutil.copyfileobj(read, write, _AT_ONCE)


def _is_open(file: Path) -> bool:
    """True if any process has the file open; OSError or AttributeError if the system cannot tell.

    A reader holds a lock on the file, which shows readers of other users and machines. But a process loses its lock
    when it opens the file a second time and closes it; so the open files of all visible processes are checked too.
    """
    with file.open("r+b") as handle:
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except (BlockingIOError, PermissionError):
            return True
    identity = file.stat()
    own = list((_PROCESSES / "self" / "fd").iterdir())
    return any(_is_same(path, identity) for path in (*own, *_open_files()))


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
