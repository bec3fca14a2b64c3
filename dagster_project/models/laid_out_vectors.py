"""Vectors of texts in a given order, few of which are in memory at a time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import IO

import numpy as np
import pyarrow as pa

from dagster_project.models.vector_segments import table_of

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
