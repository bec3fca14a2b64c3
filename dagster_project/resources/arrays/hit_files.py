"""The files of rows of hits that a version takes over from the one before it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from dagster_project.resources.arrays.checksums import require_whole

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
FILE_BYTES = 32 << 20
"""From this size on a file is complete, and the next one begins."""
_MOST_FILES = 16
"""Files that are not complete, before they are merged."""


def files_of(folder: Path, name: str) -> list[Path]:
    """The files that hold rows of this kind, in their order."""
    return [folder / f"{name}.arrow", *sorted(folder.glob(f"{name}.*.arrow"))]


def take_over(before: Path, folder: Path, name: str) -> None:
    """Put the files of another version into a folder; rows keep their numbers, also those that nothing refers to.

    Many small files become one. ValueError if one of these is not what was written.
    """
    files = files_of(before, name)
    complete = max((n + 1 for n, file in enumerate(files) if file.stat().st_size >= FILE_BYTES), default=0)
    small = files[complete:] if len(files) - complete > _MOST_FILES else []
    for number, file in enumerate(files[: len(files) - len(small)]):
        os.link(file, _target(folder, name, number))
    if small:
        require_whole(before, small)
        _write(small, _target(folder, name, complete))


def _target(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.{number:05}.arrow" if number else f"{name}.arrow")


def _write(files: list[Path], target: Path) -> None:
    """Write the batches of some files to one."""
    with pa.memory_map(str(files[0])) as first:
        schema = pa.ipc.open_file(first).schema
    with pa.ipc.new_file(str(target), schema, options=OPTIONS) as writer:
        for path in files:
            with pa.memory_map(str(path)) as mapped:
                reader = pa.ipc.open_file(mapped)
                for place in range(reader.num_record_batches):
                    writer.write_batch(reader.get_batch(place))
