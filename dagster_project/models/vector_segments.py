"""The embedding cache on disk: Parquet files of hashes and vectors with checksums, lookups in them, and vectors in order."""

import os
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from dagster_project.system.durable import put
from transforms.embedding.vectors import matrix, require_usable, rounded
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


def vector_count(segment: Path) -> int:
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

    ArrowException or OSError if it is damaged, FileNotFoundError if it vanished in a merge."""
    with pa.OSFile(str(segment)) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        if not parquet.schema_arrow.equals(schema_of(dimensions)):
            raise pa.ArrowInvalid(f"{segment} holds other columns than a cache of vectors")
        for number in range(parquet.num_row_groups):
            names = parquet.read_row_group(number, ["text_hash"]).column(0).to_pylist()
            indexes = np.array([index_of.get(name, -1) for name in names], dtype=np.int64)
            rows = np.flatnonzero(indexes >= 0)
            if len(rows):
                vectors = matrix(parquet.read_row_group(number, ["vector"]).column(0))
                yield indexes[rows], rounded(vectors[rows])


def segment_damage(segment: Path, dimensions: int) -> str | None:
    """Why a segment cannot be trusted; None if it can, or is gone."""
    try:
        table = read_segment(segment)
    except FileNotFoundError:
        return None
    if table is None:
        return "truncated or corrupt"
    if not table.schema.equals(schema_of(dimensions)):
        return f"holds other columns than text_hash and a vector of width {dimensions}"
    try:
        require_usable(matrix(table.column("vector")), table.num_rows, dimensions)
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
            table, stream, row_group_size=_ROW_GROUP, compression="zstd", use_dictionary=False,
            column_encoding={"vector.list.element": "BYTE_STREAM_SPLIT"}, write_page_checksum=True,
        )  # fmt: skip
        stream.flush()
        os.fsync(stream.fileno())
    return put(temporary, folder / f"{name}.parquet")


class SharedSegments:
    """The segments of a cache on an object store, for machines that share no disk: each copies segments that others made."""

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
    """Vectors in a temporary file at the places of their indexes, added in any order and read in that of the indexes."""

    def __init__(self, file: IO[bytes], names: Sequence[str], dimensions: int):
        """`names` are the hashes of the texts at all indexes; `file` is closed together with this object."""
        self.file, self.names, self.dimensions = file, names, dimensions
        weakref.finalize(self, file.close)
        self._width = 4 * dimensions
        self._has_vector = np.zeros(len(names), dtype=bool)
        file.truncate(len(names) * self._width)

    def add(self, indexes: np.ndarray, vectors: np.ndarray) -> None:
        """Add the vectors of some indexes; equal indexes have equal vectors."""
        rows = np.ascontiguousarray(vectors, dtype=np.float32).data
        for row, index in enumerate(indexes.tolist()):
            os.pwrite(self.file.fileno(), rows[row : row + 1], index * self._width)
        self._has_vector[indexes] = True

    @property
    def count(self) -> int:
        """How many indexes have a vector."""
        return int(np.count_nonzero(self._has_vector))

    def between(self, first: int, end: int) -> Iterator[pa.Table]:
        """Columns `text_hash` and `vector` of those of the indexes `first` to `end` - 1 that have a vector."""
        for start in range(first, end, _TABLE_ROWS):
            stop = min(end, start + _TABLE_ROWS)
            data = os.pread(self.file.fileno(), (stop - start) * self._width, start * self._width)
            rows, own = np.frombuffer(data, np.float32), self._has_vector[start:stop]
            rows = rows.reshape(-1, self.dimensions)
            names = pa.array(self.names[start:stop], pa.string()).filter(pa.array(own))
            yield table_of(names, rows if own.all() else rows[own])


Key = tuple[str, int, str]
"""Model, dimensions and task of vectors."""
_OfCache = Callable[..., Any]


class CacheLookup:
    """Which of some texts have a vector in the cache, whose functions list its segments and read the hashes in one, once."""

    def __init__(self, key: Key, hashes: Iterable[str], segments: _OfCache, hashes_in: _OfCache):
        self.key, self._segments, self._hashes_in = key, segments, hashes_in
        self._missing = set(hashes)
        self._names: set[str] = set()

    def missing(self) -> set[str]:
        """The hashes of those that have none now."""
        while self._missing and (new := self._segments(*self.key).keys() - self._names):
            for name in sorted(new):
                try:
                    self._discard(self._hashes_in(self.key, name))
                except FileNotFoundError:
                    continue  # merged meanwhile
                self._names.add(name)
        return self._missing

    def _discard(self, hashes: pa.Array | pa.ChunkedArray) -> None:
        if len(hashes) > len(self._missing):
            hashes = hashes.filter(pc.is_in(hashes, value_set=pa.array(self._missing, pa.string())))
        self._missing.difference_update(hashes.to_pylist())
