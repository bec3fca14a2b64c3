"""Which of some texts have a vector in the embedding cache, looked up again as others come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[str, int, str]
"""Model, dimensions and task of vectors."""


class Segments(Protocol):
    """The segments of a cache."""

    def segments(self, model: str, dimensions: int, task: str) -> Mapping[str, Path]:
        """The files with vectors by their names."""

    def hashes_in(self, key: Key, segment: str) -> pa.ChunkedArray:
        """The text hashes of a segment; FileNotFoundError if it vanished in a merge."""


class CacheLookup:
    """Which of some texts have a vector in the cache. A segment that was read is not read again."""

    def __init__(self, cache: Segments, key: Key, hashes: Iterable[str]):
        self.cache, self.key = cache, key
        self._missing = set(hashes)
        self._seen: set[str] = set()

    def missing(self) -> set[str]:
        """The hashes of those that have none now."""
        while self._missing and (new := self.cache.segments(*self.key).keys() - self._seen):
            for name in sorted(new):
                try:
                    self._discard(self.cache.hashes_in(self.key, name))
                except FileNotFoundError:
                    continue  # merged meanwhile
                self._seen.add(name)
        return self._missing

    def _discard(self, found: pa.Array | pa.ChunkedArray) -> None:
        if len(found) > len(self._missing):
            found = found.filter(pc.is_in(found, value_set=pa.array(self._missing, pa.string())))
        self._missing.difference_update(found.to_pylist())
