"""Vectors on an object store, for machines that share no disk: Parquet objects, each read once by
each machine.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from dagster_project.models.answer_cache import SQLiteAnswerCache
from transforms.embedding.vectors import matrix

_ROWS_AT_ONCE = 1 << 14
_Rows = tuple[list[str], np.ndarray]
"""Hashes of texts, and their vectors as a float32 matrix."""


def segment_rows(segment: Path | BytesIO) -> Iterator[_Rows]:
    """The rows of a Parquet file of vectors, some at a time; ArrowException or OSError if it is
    damaged.
    """
    with pq.ParquetFile(segment, page_checksum_verification=True) as file:
        for rows in file.iter_batches(_ROWS_AT_ONCE, columns=["text_hash", "vector"]):
            yield rows.column(0).to_pylist(), matrix(pa.chunked_array([rows.column(1)]))


class SharedVectors:
    """The vectors of all machines on an object store; a file here notes which objects this machine
    has read.
    """

    def __init__(self, root: Path, place: UPath):
        self.root, self.place = root, place
        self._read = SQLiteAnswerCache(root / "objects.sqlite")

    def new(self, folder: Path) -> Iterator[_Rows]:
        """The rows of objects below a folder of the cache that this machine has not read."""
        paths = self._objects(folder)
        for path in sorted(set(paths) - self._read.known(paths).keys()):
            with suppress(FileNotFoundError):  # another machine replaced it
                yield from segment_rows(BytesIO(self.place.fs.cat_file(path)))
            self._read.store({path: ""})

    def put(self, folder: Path, table: pa.Table) -> None:
        """Add the rows of a table; durable when the call returns."""
        path = (self._at(folder) / f"{secrets.token_hex(16)}.parquet").path
        data = BytesIO()
        pq.write_table(
            table, data, compression="zstd", use_dictionary=False, write_page_checksum=True
        )
        self.place.fs.pipe_file(path, data.getvalue())
        self._read.store({path: ""})

    def replace(self, folder: Path, tables: Iterable[pa.Table]) -> None:
        """Put tables in place of all objects of a folder."""
        before = self._objects(folder)
        for table in tables:
            self.put(folder, table)
        for path in before:
            with suppress(FileNotFoundError):
                self.place.fs.rm_file(path)

    def _objects(self, folder: Path) -> list[str]:
        try:
            return list(self.place.fs.find(self._at(folder).path))
        except FileNotFoundError:
            return []

    def _at(self, folder: Path) -> UPath:
        return self.place.joinpath(*folder.relative_to(self.root).parts)
