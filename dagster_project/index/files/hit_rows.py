"""The row of a hit, and the text it stands in, in files of Arrow batches that are mapped into memory.

A table of a published file is read in thousands of rows; these cost as much as the few rows that are read. What of a row
only hits show is one column of JSON: a batch of thirty columns takes three times as long to open and a fifth more room.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.index.files import hit_statements
from dagster_project.index.files.segments import require_whole
from transforms.errors import IndexUnavailableError, MemoryLimitError

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_FILE_BYTES, _MOST_FILES = 32 << 20, 16
"""Files that are smaller are merged when they are more."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_AT_ONCE = 1 << 10
_BATCH_BYTES = 1 << 15
"""Text of a batch, which is decompressed as a whole; a single text may be longer."""
_KEPT_BATCHES, _KEPT_ROWS = 64, 128
"""Batches that stay decompressed, and rows that are kept: a search reads the rows of its hits several times."""
_CHUNKS, _TEXTS = "hit_chunks", "hit_texts"
_TEXT_OF = "hit_text_of"
_PLACE = ("source_kind", "parent_id", "attachment_id", "content_class", "byte_start", "byte_end")


class _Columns(NamedTuple):
    """Columns of the rows of a file: that of the text, and those that the writer returns; the first is not written."""

    text: str
    returned: tuple[str, ...]


_COLUMNS = {_TEXTS: _Columns("text", ("key",)), _CHUNKS: _Columns("text_display", ("chunk_no", "text_no"))}
_CHUNKS_AT_ONCE = 1 << 19
"""Chunks of a group of documents that are written together; what is said of four times as many of mails with long
attachments, or of a million short mails in two, was joined within the memory that a full rebuild leaves for it."""
_MOST_ROWS = 1.5
"""Rows for each chunk, those included that another has taken the place of, from which all are rewritten."""


class HitRows:
    """The rows of a version's chunks, with what their mail, document, section and thread say, and stored texts."""

    def __init__(self, folder: Path, arrays: Mapping[str, np.ndarray]):
        """`arrays` are those that `write_hit_rows` wrote, by name."""
        self._chunks, self._texts = (_Batches(folder, name, arrays) for name in (_CHUNKS, _TEXTS))
        self._places = _Batches(folder, _CHUNKS, arrays, _PLACE)
        self._row = arrays[f"{_CHUNKS}_row"]
        self._known: dict[int, dict[str, Any]] = {}
        self.shown: Callable[[Sequence[str | None]], Sequence[str | None]] = list
        """Gives the texts that these rows may have references to."""

    def of(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The row of each of these chunks, by its number.

        That is `chunk_no` and what `schemas.SEARCH_HITS` has of it; `title`, `text_display`, `spans`, `content_class`;
        `node_start` and `node_end` of its section; `page_breaks`, where in it pages begin; `text_no`, the number of the
        text that its bytes are of. Of a mail `answered_name` and `answered_text` are the author and, for a short reply,
        words of the mail it answers, and `inferred_quotes` the bytes of unmarked quotes.
        """
        numbers, known = {*chunks}, self._known
        read = self._by_chunk(self._chunks, numbers - known.keys())
        known = known | {n: row | self._facts(row.pop("facts")) for n, row in read.items()}
        # A second look reads most of what is described.
        self._known = known if len(known) <= _KEPT_ROWS else {}
        texts = self.shown([known[n]["text_display"] for n in numbers])
        return {n: known[n] | {"text_display": text} for n, text in zip(numbers, texts, strict=True)}

    def places(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Of the same rows only where in its mail or document each chunk stands.

        That is `chunk_no`, `source_kind`, `parent_id`, `attachment_id`, `content_class`, `byte_start` and `byte_end`.
        """
        return self._by_chunk(self._places, {*chunks})

    def _by_chunk(self, batches: _Batches, chunks: AbstractSet[int]) -> dict[int, dict[str, Any]]:
        """The stored rows of these chunks, by the number of each."""
        numbers = np.fromiter(chunks, dtype=np.int64, count=len(chunks))
        stored = self._row[numbers]
        order = np.argsort(stored)
        rows = batches.rows(stored[order])
        return {n: {"chunk_no": n, **row} for n, row in zip(numbers[order].tolist(), rows, strict=True)}

    def _facts(self, stored: str) -> dict[str, Any]:
        """What a row says of a hit, by name."""
        try:
            facts = dict(zip(hit_statements.FACTS, json.loads(stored), strict=True))
        except ValueError as error:
            raise _damaged(self._chunks.paths[0], error) from error
        at = facts["effective_at"]
        return facts | {"effective_at": None if at is None else _EPOCH + timedelta(microseconds=at)}

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """Stored texts by their number."""
        unique = np.unique(np.fromiter(numbers, dtype=np.int64))
        texts = self.shown([row["text"] for row in self._texts.rows(unique)])
        return {n: text for n, text in zip(unique.tolist(), texts, strict=True) if text is not None}


class _Batches:
    """Arrow files behind each other, and the number of the first row of each of their batches, and after the last."""

    def __init__(
        self, folder: Path, name: str, arrays: Mapping[str, np.ndarray], columns: Sequence[str] = ()
    ):
        """Of the columns only some, where they are named: the others are not decompressed."""
        self.paths = files_of(folder, name)
        mapped = [pa.memory_map(str(path)) for path in self.paths]
        schema = pa.ipc.open_file(mapped[0]).schema
        # A few small buffers are decompressed faster than other threads start.
        options = pa.ipc.IpcReadOptions(
            use_threads=False, included_fields=[schema.get_field_index(column) for column in columns]
        )
        readers = [pa.ipc.open_file(file, options=options) for file in mapped]
        counts = [reader.num_record_batches for reader in readers]
        self.firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.starts = arrays[f"{name}_starts"]
        self._batch = lru_cache(_KEPT_BATCHES)(lambda number, place: readers[number].get_batch(place))

    def rows(self, numbers: np.ndarray) -> list[dict[str, Any]]:
        """The rows of these numbers, which ascend."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        found: list[pa.RecordBatch] = []
        number = 0
        try:
            for place in np.unique(places).tolist():
                number = int(np.searchsorted(self.firsts, place, side="right")) - 1
                batch = self._batch(number, place - int(self.firsts[number]))
                found += [
                    batch.slice(row, 1) for row in (numbers[places == place] - self.starts[place]).tolist()
                ]
            return pa.concat_batches(found).to_pylist() if found else []
        except pa.ArrowMemoryError as error:
            raise MemoryLimitError(f"there is not enough memory for the texts of hits ({error})") from error
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise IndexUnavailableError(
                    f"{self.paths[number]} cannot be read ({error}): look at its rights and at the disk"
                ) from error
            raise _damaged(self.paths[number], error) from error


def _damaged(path: Path, error: Exception) -> IndexUnavailableError:
    """The fault of a file of rows whose content is not what was written."""
    return IndexUnavailableError(
        f"{path} is damaged ({error}): delete its folder, and the next search makes it again"
    )


def files_of(folder: Path, name: str) -> list[Path]:
    """The files that hold rows of this kind, in their order."""
    return [folder / f"{name}.arrow", *sorted(folder.glob(f"{name}.*.arrow"))]


def take_over(before: Path, folder: Path, name: str) -> None:
    """Put the files of another version into a folder; rows keep their numbers, also those that nothing refers to.

    Many small files become one. ValueError if one of these is not what was written.
    """
    files = files_of(before, name)
    complete = max((n + 1 for n, file in enumerate(files) if file.stat().st_size >= _FILE_BYTES), default=0)
    small = files[complete:] if len(files) - complete > _MOST_FILES else []
    for number, file in enumerate(files[: len(files) - len(small)]):
        os.link(file, _place(folder, name, number))
    if small:
        require_whole(before, small)
        _merge(small, _place(folder, name, complete))


def _place(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.{number:05}.arrow" if number else f"{name}.arrow")


def _merge(files: list[Path], target: Path) -> None:
    """Write the batches of some files to one."""
    with pa.memory_map(str(files[0])) as first:
        schema = pa.ipc.open_file(first).schema
    with pa.ipc.new_file(str(target), schema, options=OPTIONS) as writer:
        for path in files:
            with pa.memory_map(str(path)) as mapped:
                for batch in pa.ipc.open_file(mapped).read_all().to_batches():
                    writer.write_batch(batch)


def write_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path, count: int) -> None:
    """Write what HitRows reads of the version that `connection` reads, which has `count` chunks."""
    row, text = np.full((2, count), -1, dtype=np.int32)
    starts = {name: [0] for name in (_CHUNKS, _TEXTS)}
    _write_rows(connection, folder, _all_documents(connection), starts, row, text)


def _all_documents(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str]]:
    """Names of a table of documents, group after group, for `_write_rows`: joined at once, all would not fit in memory."""
    connection.execute(
        "CREATE TEMP TABLE documents_with_chunks AS "
        f"SELECT doc_id, min(rowid) // {_CHUNKS_AT_ONCE} AS part FROM chunks GROUP BY doc_id"
    )
    parts = connection.execute("SELECT DISTINCT part FROM documents_with_chunks ORDER BY part").fetchall()
    for (part,) in parts or [(0,)]:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_WRITTEN} AS "
            f"SELECT doc_id FROM documents_with_chunks WHERE part = {part}"
        )
        yield _WRITTEN, _WRITTEN
    for table in ("documents_with_chunks", _WRITTEN):
        connection.execute(f"DROP TABLE {table}")


def update_hit_rows(
    connection: duckdb.DuckDBPyConnection, folder: Path, before: Path, source: np.ndarray
) -> None:
    """Write what HitRows reads, taking over what `before`, the folder of the version before, has of it.

    `source` has the number that each chunk had there, -1 for none. Written are the rows of the documents that the
    temporary tables `changed_facts` and `changed_texts` name, of these also their texts. Files of the version before are
    shared, or merged if they are many and small.
    """
    starts = {name: np.load(before / f"{name}_starts.npy").tolist() for name in (_CHUNKS, _TEXTS)}
    if starts[_CHUNKS][-1] > _MOST_ROWS * max(len(source), 1):
        return write_hit_rows(connection, folder, len(source))
    for name in (_CHUNKS, _TEXTS):
        take_over(before, folder, name)
    known = source >= 0
    row, text = (
        np.where(known, np.load(before / f"{name}.npy").take(source, mode="clip"), -1).astype(np.int32)
        if known.any()
        else np.full(len(source), -1, dtype=np.int32)
        for name in (f"{_CHUNKS}_row", _TEXT_OF)
    )
    _write_rows(connection, folder, [(_CHANGED_FACTS, _CHANGED_TEXTS)], starts, row, text)
    return None


def _write_rows(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    groups: Iterable[tuple[str, str]],
    starts: Mapping[str, list[int]],
    row: np.ndarray,
    text: np.ndarray,
) -> None:
    """Write rows and texts behind those with `starts`; `row` and `text` are where those of each chunk are, or -1.

    Each of the `groups` names two tables, of the documents whose rows and of those whose texts are written.
    """
    known = np.flatnonzero(text >= 0)
    connection.register(
        "hit_texts_before", pa.table({"chunk_no": known, "text_no": text[known].astype(np.int64)})
    )
    with _NewFile(folder, _TEXTS, starts) as new_texts, _NewFile(folder, _CHUNKS, starts) as new_chunks:
        for described, stored in groups:
            first_text, first_row = new_texts.starts[-1], new_chunks.starts[-1]
            keys = new_texts.add(connection.execute(hit_statements.stored(stored))).column("key")
            text_numbers = np.arange(len(keys)) + first_text
            connection.register("hit_texts", pa.table({"key": keys, "text_no": text_numbers}))
            written = new_chunks.add(connection.execute(hit_statements.described(described)))
            connection.unregister("hit_texts")
            places = written.column("chunk_no").to_numpy()
            row[places] = first_row + np.arange(len(places), dtype=np.int32)
            text[places] = written.column("text_no").fill_null(-1).to_numpy()
    connection.unregister("hit_texts_before")
    np.save(folder / f"{_CHUNKS}_row.npy", row)
    np.save(folder / f"{_TEXT_OF}.npy", text)


class _NewFile:
    """The next file of rows of a kind, written group by group; `starts` are the numbers of the first rows of the batches
    there are, and of the next row."""

    def __init__(self, folder: Path, name: str, starts: Mapping[str, list[int]]):
        self.starts, self._columns = list(starts[name]), _COLUMNS[name]
        self._folder, self._name = folder, name
        self._file: pa.ipc.RecordBatchFileWriter | None = None

    def __enter__(self) -> _NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
        np.save(self._folder / f"{self._name}_starts.npy", np.array(self.starts, dtype=np.int64))

    def add(self, rows: duckdb.DuckDBPyConnection) -> pa.Table:
        """Write the rows of a statement as they come; returns the columns that `_COLUMNS` names."""
        columns, returned = self._columns, []
        reader = rows.to_arrow_reader(_ROWS_AT_ONCE)
        schema = pa.schema([field for field in reader.schema if field.name != columns.returned[0]])
        if self._file is None:
            number = sum(path.exists() for path in files_of(self._folder, self._name))
            self._file = pa.ipc.new_file(
                str(_place(self._folder, self._name, number)), schema, options=OPTIONS
            )
        for batch in reader:
            # Copied: a column of a batch of DuckDB's keeps all of the batch in memory.
            returned.append(batch.select(columns.returned).take(pa.array(np.arange(batch.num_rows))))
            for part in _parts(batch.select(schema.names), columns.text):
                self._file.write_batch(part)
                self.starts.append(self.starts[-1] + part.num_rows)
        returned_schema = pa.schema([reader.schema.field(n) for n in columns.returned])
        return pa.Table.from_batches(returned, schema=returned_schema)


def _parts(batch: pa.RecordBatch, text: str) -> Iterator[pa.RecordBatch]:
    """Slices of a batch with about `_BATCH_BYTES` of text each."""
    sizes = pc.fill_null(pc.binary_length(batch.column(text)), 0).to_numpy(zero_copy_only=False)
    block = np.cumsum(sizes, dtype=np.int64) // _BATCH_BYTES
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), batch.num_rows]
    for start, end in zip(edges, edges[1:], strict=False):
        if end > start:
            yield batch.slice(start, end - start)


_CHANGED_FACTS, _CHANGED_TEXTS, _WRITTEN = "changed_facts", "changed_texts", "written_documents"
