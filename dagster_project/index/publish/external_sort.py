"""External sort of all postings of a lake, by sorted runs in files beside the new version."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dagster_project.system.long_work import ordered_map
from transforms.retrieval import bm25, posting_runs

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)
_COLUMNS = ("chunk_id", "field", "term", "tf")
_ROW_GROUPS_AT_ONCE = 48
_MOST_AT_ONCE = 2
"""Ranges in memory at once, some 100 MB each."""
_CHUNK_BYTES, _COUNT_BYTES = 4, 4
_NO_TERMS = pl.Series("term", [], dtype=pl.String)


class _Stored(NamedTuple):
    """A run whose rows are in a file: first all chunks, then all counts."""

    terms: pl.Series
    starts: np.ndarray
    file: Path


class PostingFiles:
    """Runs of postings in a folder; to be called in this order: `add`, `number`, `batches`,
    `terms`, `chunk_lengths`.
    """

    def __init__(self, folder: Path, chunk_count: int):
        folder.mkdir()
        self.folder = folder
        self.lengths = np.zeros((len(bm25.FIELDS), chunk_count), dtype=np.int32)
        self._runs: list[_Stored] = []
        self._names, self._numbers = posting_runs.term_numbers([])
        self._frequencies = np.zeros(0, dtype=np.int64)

    def add(self, file: Path, chunks: pa.Table, restated: pa.Array) -> None:
        """Add those rows of a stored `terms` table that belong to `chunks` (chunk_id, chunk_no).

        Text and quote of the chunks `restated` are left out.
        """
        chunk_ids = chunks.column("chunk_id").combine_chunks()
        numbers = chunks.column("chunk_no").to_numpy()
        for table in _stored_terms(file):
            run = posting_runs.posting_run(table, chunk_ids, numbers, restated, self.lengths)
            if len(run.chunks):
                self._runs.append(self._stored(run))

    def number(self) -> None:
        """Number all terms."""
        self._names, self._numbers = posting_runs.term_numbers([run.terms for run in self._runs])
        self._frequencies = np.zeros(len(self._names), dtype=np.int64)
        self._runs = [run._replace(terms=_NO_TERMS) for run in self._runs]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All postings in order of term and chunk: term_id, chunk_no and the frequency in each
        field.
        """
        yield posting_runs.no_postings()
        parts = posting_runs.ranges(
            len(self._names), self._numbers, [run.starts for run in self._runs]
        )
        for batch in ordered_map(self._of_range, parts, _MOST_AT_ONCE):
            self._frequencies += np.bincount(
                batch.column("term_id").to_numpy(), minlength=len(self._names)
            )
            yield batch

    def terms(self) -> pa.Table:
        """Columns term_id, term and df (chunks that hold it) of all terms, once the postings were
        taken.
        """
        numbers = np.arange(len(self._names), dtype=np.int32)
        return pa.table(
            {
                "term_id": numbers,
                "term": self._names.to_arrow(),
                "df": self._frequencies.astype(np.int32),
            }
        )

    def chunk_lengths(self) -> pa.Table:
        """Columns chunk_no and the number of terms in each field."""
        numbers = np.arange(self.lengths.shape[1], dtype=np.int32)
        of_field = {f"{f}_length": row for f, row in zip(bm25.FIELDS, self.lengths, strict=True)}
        return pa.table({"chunk_no": numbers, **of_field})

    def _stored(self, run: posting_runs.Run) -> _Stored:
        file = self.folder / str(len(self._runs))
        with file.open("wb") as output:
            run.chunks.tofile(output)
            run.counts.tofile(output)
        return _Stored(run.terms, run.starts, file)

    def _of_range(self, part: posting_runs.Range) -> pa.RecordBatch:
        return posting_runs.postings(
            [
                (own[low:high], np.diff(run.starts[low : high + 1]), *_rows(run, low, high))
                for run, own, (low, high) in zip(self._runs, self._numbers, part.parts, strict=True)
                if low < high
            ]
        )


def keyed(rows: _Rows, keys: np.ndarray) -> _Rows:
    """Rows with the keys of their chunks instead of the numbers."""
    index = rows.schema.get_field_index("chunk_no")
    return rows.set_column(index, "chunk_key", pa.array(keys[rows.column(index).to_numpy()]))


def _rows(run: _Stored, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Chunks and counts of the terms from index `low` to `high` of a run."""
    begin, count = int(run.starts[low]), int(run.starts[high] - run.starts[low])
    with run.file.open("rb") as file:
        file.seek(begin * _CHUNK_BYTES)
        chunks = np.fromfile(file, dtype=np.int32, count=count)
        file.seek(int(run.starts[-1]) * _CHUNK_BYTES + begin * _COUNT_BYTES)
        return chunks, np.fromfile(file, dtype=np.uint32, count=count)


def _stored_terms(file: Path) -> Iterator[pa.Table]:
    """The rows of a stored `terms` table, some row groups at a time, with dictionaries for its
    texts.
    """
    with pq.ParquetFile(file, read_dictionary=list(_COLUMNS[:3])) as parquet:
        for first in range(0, parquet.num_row_groups, _ROW_GROUPS_AT_ONCE):
            groups = range(first, min(first + _ROW_GROUPS_AT_ONCE, parquet.num_row_groups))
            yield parquet.read_row_groups(list(groups), columns=list(_COLUMNS))
