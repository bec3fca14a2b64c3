"""The files of rows of hits that a version takes over from the one before it, without the texts that are removed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.resources.arrays.checksums import require_whole

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
FILE_BYTES = 32 << 20
"""From this size on a file is complete, and the next one begins: a removed text rewrites its file alone."""
_MOST_FILES = 16
"""Files that are not complete, before they are merged."""


def files_of(folder: Path, name: str) -> list[Path]:
    """The files that hold rows of this kind, in their order."""
    return [folder / f"{name}.arrow", *sorted(folder.glob(f"{name}.*.arrow"))]


def take_over(before: Path, folder: Path, name: str, starts: Sequence[int], is_removed: np.ndarray) -> None:
    """Put the files of another version into a folder; rows that are removed stay there without a word.

    `starts` has the number of the first row of each batch, `is_removed` is by row. Only files with such rows are written
    again, and those that are merged. ValueError if one of these is not what was written.
    """
    files = files_of(before, name)
    complete = max((n + 1 for n, file in enumerate(files) if file.stat().st_size >= FILE_BYTES), default=0)
    groups = [[file] for file in files]
    if len(files) - complete > _MOST_FILES:
        groups[complete:] = [files[complete:]]
    reads = len(groups) < len(files) or is_removed.any()
    place = 0
    for number, group in enumerate(groups):
        counts = [_batches_in(file) if reads else 0 for file in group]
        rows = slice(starts[place], starts[place + sum(counts)])
        target = folder / (f"{name}.{number:05}.arrow" if number else f"{name}.arrow")
        if len(group) > 1 or is_removed[rows].any():
            require_whole(before, group)
            _write(group, target, is_removed[rows])
        else:
            os.link(group[0], target)
        place += sum(counts)


def _write(files: Sequence[Path], target: Path, is_removed: np.ndarray) -> None:
    """Write the batches of some files to one; rows keep their numbers."""
    writer, done = None, 0
    for batch in _batches(files):
        writer = writer or pa.ipc.new_file(str(target), batch.schema, options=OPTIONS)
        removed = is_removed[done : done + batch.num_rows]
        writer.write_batch(_emptied(batch, removed) if removed.any() else batch)
        done += batch.num_rows
    if writer:
        writer.close()


def _emptied(batch: pa.RecordBatch, removed: np.ndarray) -> pa.RecordBatch:
    """A batch whose removed rows have empty texts."""
    mask = pa.array(removed)
    columns = [
        pc.if_else(mask, pa.scalar("", column.type), column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _batches(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        with pa.memory_map(str(path)) as mapped:
            reader = pa.ipc.open_file(mapped)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)


def _batches_in(path: Path) -> int:
    with pa.memory_map(str(path)) as mapped:
        return int(pa.ipc.open_file(mapped).num_record_batches)
