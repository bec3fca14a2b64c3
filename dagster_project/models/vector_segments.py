"""The embedding cache on disk: Parquet files of hashes and vectors with checksums, lookups in them, and vectors in order."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from dagster_project.system.durable import put
from transforms.embedding.vectors import require_usable, stacked
from transforms.errors import EmbeddingError

TEMPORARY = ".tmp-"
_ROW_GROUP = 16384
"""Vectors that are read at once: some 16 MB."""


def schema_of(dimensions: int) -> pa.Schema:
    return pa.schema([("text_hash", pa.string()), ("vector", pa.list_(pa.float32(), dimensions))])


def table_of(hashes: pa.Array, vectors: np.ndarray) -> pa.Table:
    """`hashes` with the rows of a float32 matrix, which is copied only if it is not contiguous."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    vector = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table({"text_hash": hashes, "vector": vector})


def size_of(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except FileNotFoundError:
        return 0


def rows_of(segment: Path) -> int:
    """How many vectors a segment has; 0 if it is damaged or gone."""
    try:
        with pa.OSFile(str(segment)) as file:
            return int(pq.ParquetFile(file).metadata.num_rows)
    except (pa.ArrowException, OSError):
        return 0


def read_segment(segment: Path, columns: list[str] | None = None) -> pa.Table | None:
    """The columns of a segment; None if it is damaged, FileNotFoundError if it vanished in a merge."""
    try:
        # Arrow's threads would release a Python file object late, perhaps too late (see `parquet_files.py`).
        with pa.OSFile(str(segment)) as file:
            return pq.ParquetFile(file, page_checksum_verification=True).read(columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError):
        return None


def matches_in(
    segment: Path, index_of: Mapping[str, int], dimensions: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each row group: the indexes of those texts that it has, and their vectors.

    ArrowException or OSError if it is damaged, FileNotFoundError if it vanished in a merge.
    """
    with pa.OSFile(str(segment)) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        if not parquet.schema_arrow.equals(schema_of(dimensions)):
            raise pa.ArrowInvalid(f"{segment} holds other columns than a cache of vectors")
        for number in range(parquet.num_row_groups):
            names = parquet.read_row_group(number, ["text_hash"]).column(0).to_pylist()
            indexes = np.array([index_of.get(name, -1) for name in names], dtype=np.int64)
            rows = np.flatnonzero(indexes >= 0)
            if len(rows):
                yield indexes[rows], stacked(parquet.read_row_group(number, ["vector"]), dimensions)[rows]


def damage_of(segment: Path, dimensions: int) -> str | None:
    """Why a segment cannot be trusted; None if it can, or is gone."""
    try:
        table = read_segment(segment)
    except FileNotFoundError:
        return None
    if table is None:
        return "truncated or corrupt"
    if not table.schema.equals(schema_of(dimensions)):
        return f"holds other columns than text_hash and a vector of width {dimensions}"
    flat = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    try:
        require_usable(flat.reshape(-1, dimensions), table.num_rows, dimensions)
    except EmbeddingError as error:
        return str(error)
    return None


def write_segment(folder: Path, table: pa.Table) -> Path:
    """Write a segment durably; it becomes visible when it is complete. Its place."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{os.getpid()}-{secrets.token_hex(8)}"
    temporary = folder / f"{TEMPORARY}{name}"
    with temporary.open("wb") as stream:
        pq.write_table(
            table,
            stream,
            row_group_size=_ROW_GROUP,
            compression="none",
            use_dictionary=False,
            write_page_checksum=True,
        )
        stream.flush()
        os.fsync(stream.fileno())
    return put(temporary, folder / f"{name}.parquet")


class SharedSegments:
    """The segments of a cache on an object store, for machines that share no disk: each copies what others made."""

    def __init__(self, root: Path, place: UPath):
        self.root, self.place = root, place

    def bring(self, folder: Path) -> None:
        """Copy the segments below a folder of the cache that are there and not here."""
        there = self._place(folder)
        try:
            paths = there.fs.find(there.path)
        except FileNotFoundError:
            return
        for path in paths:
            segment = folder / path.removeprefix(f"{there.path}/")
            if not segment.exists():
                segment.parent.mkdir(parents=True, exist_ok=True)
                temporary = segment.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
                there.fs.get_file(path, str(temporary))
                temporary.replace(segment)

    def put(self, segment: Path) -> None:
        """Copy a segment there; durable when the call returns."""
        there = self._place(segment)
        there.fs.put_file(str(segment), there.path)

    def drop(self, segment: Path) -> None:
        """Delete a segment there."""
        there = self._place(segment)
        with suppress(FileNotFoundError):
            there.fs.rm_file(there.path)

    def _place(self, place: Path) -> UPath:
        return self.place.joinpath(*place.relative_to(self.root).parts)


_TABLE_ROWS = 1 << 16


class LaidOutVectors:
    """Vectors that are added in any order to a temporary file and read in the order of their indexes."""

    def __init__(self, file: IO[bytes], names: Sequence[str], dimensions: int):
        """`names` are the hashes of the texts at all indexes; `file` is closed together with this object."""
        self.file, self.names, self.dimensions = file, names, dimensions
        weakref.finalize(self, file.close)
        self._rows = 0
        self._parts: dict[int, list[tuple[int, np.ndarray]]] = {}
        """By block of indexes, the parts of the file with vectors of it: the first row, and the index of each row."""
        self._block = lru_cache(1)(self._read_block)

    def add(self, indexes: np.ndarray, vectors: np.ndarray) -> None:
        """Add the vectors of some indexes; equal indexes have equal vectors."""
        order = np.argsort(indexes, kind="stable")
        indexes = indexes[order]
        self.file.write(np.ascontiguousarray(vectors[order], dtype=np.float32).data)
        numbers = indexes // _TABLE_ROWS
        for number in np.unique(numbers).tolist():
            first, last = np.searchsorted(numbers, [number, number + 1])
            self._parts.setdefault(number, []).append((self._rows + int(first), indexes[first:last]))
        self._rows += len(indexes)

    @property
    def count(self) -> int:
        """How many indexes have a vector."""
        blocks = ([indexes for _, indexes in parts] for parts in self._parts.values())
        return sum(len(np.unique(np.concatenate(indexes))) for indexes in blocks)

    def between(self, first: int, end: int) -> Iterator[pa.Table]:
        """Columns `text_hash` and `vector` of those of the indexes `first` to `end` - 1 that have a vector."""
        for number in range(first // _TABLE_ROWS, -(-end // _TABLE_ROWS)):
            start = number * _TABLE_ROWS
            low, high = max(first, start), min(end, start + _TABLE_ROWS)
            rows, has_vector = (column[low - start : high - start] for column in self._block(number))
            own = pa.array(self.names[low:high], pa.string())
            yield table_of(own.filter(pa.array(has_vector)), rows if has_vector.all() else rows[has_vector])

    def _read_block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of a block of indexes, and which of these have one."""
        self.file.flush()
        start, width = number * _TABLE_ROWS, 4 * self.dimensions
        matrix = np.empty((min(_TABLE_ROWS, len(self.names) - start), self.dimensions), dtype=np.float32)
        has_vector = np.zeros(len(matrix), dtype=bool)
        for first, indexes in self._parts.get(number, []):
            read = os.pread(self.file.fileno(), len(indexes) * width, first * width)
            matrix[indexes - start] = np.frombuffer(read, dtype=np.float32).reshape(-1, self.dimensions)
            has_vector[indexes - start] = True
        return matrix, has_vector


Key = tuple[str, int, str]
"""Model, dimensions and task of vectors."""
_OfCache = Callable[..., Any]


class CacheLookup:
    """Which of some texts have a vector in the cache, whose functions list its segments and read the hashes in one, once."""

    def __init__(self, key: Key, hashes: Iterable[str], segments: _OfCache, hashes_in: _OfCache):
        self.key, self._segments, self._hashes_in = key, segments, hashes_in
        self._missing = set(hashes)
        self._seen: set[str] = set()

    def missing(self) -> set[str]:
        """The hashes of those that have none now."""
        while self._missing and (new := self._segments(*self.key).keys() - self._seen):
            for name in sorted(new):
                try:
                    self._discard(self._hashes_in(self.key, name))
                except FileNotFoundError:
                    continue  # merged meanwhile
                self._seen.add(name)
        return self._missing

    def _discard(self, found: pa.Array | pa.ChunkedArray) -> None:
        if len(found) > len(self._missing):
            found = found.filter(pc.is_in(found, value_set=pa.array(self._missing, pa.string())))
        self._missing.difference_update(found.to_pylist())
