"""Vectors addressed by content, so that no text is ever embedded twice."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.resources.processes import is_left_over

_COMPACT_SEGMENTS = 64
_TEMPORARY = ".tmp-"


class ParquetEmbeddingCache:
    """Segments of (text_hash, vector) below `<root>/<model>/<dimensions>/<task>/`.

    Every stored batch is a file of its own, renamed into place when it is complete, so that any
    number of processes may store at once and a killed one loses at most its batch in flight.
    Equal hashes in two segments carry equal vectors. Many small segments are merged now and then.
    """

    def __init__(self, root: Path):
        self.root = root

    def hashes(self, model: str, dimensions: int, task: str) -> set[str]:
        """The text hashes that have a vector."""
        tables = self._read_all(model, dimensions, task, ["text_hash"])
        return {h for table in tables for h in table.column("text_hash").to_pylist()}

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """Keep vectors, float32 of shape (hashes, dimensions); durable when the call returns."""
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
        table = pa.table(
            {
                "text_hash": pa.array(list(hashes), pa.string()),
                "vector": pa.FixedSizeListArray.from_arrays(flat, dimensions),
            }
        )
        self._write(self._folder(model, dimensions, task), table)

    def vectors(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> pa.Table:
        """Columns `text_hash` and `vector`, sorted by hash, for those of `hashes` that are known."""
        wanted = pa.array(sorted(set(hashes)), pa.string())
        tables = self._read_all(model, dimensions, task, ["text_hash", "vector"])
        parts = [t.filter(pc.is_in(t.column("text_hash"), value_set=wanted)) for t in tables]
        if not parts:
            empty = pa.schema([("text_hash", pa.string()), ("vector", pa.list_(pa.float32(), dimensions))])
            return empty.empty_table()
        found = pa.concat_tables(parts).combine_chunks()
        order = pc.index_in(wanted, value_set=found.column("text_hash"))
        return found.take(pc.drop_null(order))

    def compact(self, model: str, dimensions: int, task: str) -> None:
        """Merge the segments into one where they are many; readers see all vectors at any moment."""
        segments = self._segments(model, dimensions, task)
        if len(segments) <= _COMPACT_SEGMENTS:
            return
        try:
            tables = {s: _read(s, ["text_hash", "vector"]) for s in segments}
        except FileNotFoundError:
            return  # another process merges them
        merged = pa.concat_tables([t for t in tables.values() if t is not None])
        hashes = merged.column("text_hash").combine_chunks()
        first = pc.index_in(pc.unique(hashes), value_set=hashes)
        self._write(self._folder(model, dimensions, task), merged.take(first))
        for segment, table in tables.items():
            if table is not None:
                segment.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete what killed processes left of batches in flight."""
        for left in self.root.rglob(f"{_TEMPORARY}*"):
            pid = left.name.removeprefix(_TEMPORARY).split("-")[0]
            if is_left_over(pid):
                left.unlink(missing_ok=True)

    def _folder(self, model: str, dimensions: int, task: str) -> Path:
        return self.root / model / str(dimensions) / task

    def _segments(self, model: str, dimensions: int, task: str) -> list[Path]:
        return sorted(self._folder(model, dimensions, task).glob("*.parquet"))

    def _read_all(self, model: str, dimensions: int, task: str, columns: list[str]) -> list[pa.Table]:
        """The segments there are, read again from the start when a merge took one away meanwhile.

        A damaged segment is left out; its texts are embedded again.
        """
        while True:
            try:
                found = [_read(s, columns) for s in self._segments(model, dimensions, task)]
            except FileNotFoundError:
                continue
            return [table for table in found if table is not None]

    def _write(self, folder: Path, table: pa.Table) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        temporary = folder / f"{_TEMPORARY}{name}"
        with temporary.open("wb") as stream:
            pq.write_table(table, stream, compression="none", use_dictionary=False)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(folder / f"{name}.parquet")


def _read(segment: Path, columns: list[str]) -> pa.Table | None:
    """The columns of a segment; None if it is damaged, FileNotFoundError if it vanished in a merge."""
    try:
        return pq.read_table(segment, columns=columns)
    except pa.ArrowInvalid:
        return None
