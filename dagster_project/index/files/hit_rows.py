"""The row of a hit, and the text it is in, in SQLite files beside a published file.

A table of a published file is read in thousands of rows; these cost as much as the few rows that are read. Facts that
only hits show are one column of JSON."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.segments import require_intact
from dagster_project.system.sql_files import SqlFile
from transforms.errors import IndexUnavailableError, MemoryLimitError

FILE, LATER = "hits.sqlite", "later_hits.sqlite"
"""The rows of the last full rebuild, which versions share, and those of chunks that came or changed since."""
_CODEC = pa.Codec("zstd", compression_level=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_AT_ONCE = 1 << 10
_SIGN = np.uint64(1 << 63)
"""Difference between a key and its number in SQLite, which is signed."""
_KNOWN_ROWS = 128
"""Rows that are remembered: a search reads the rows of its hits several times."""
_CHUNKS_AT_ONCE = 1 << 19
"""Chunks of a group of documents that are written together; the facts of four times as many of mails with long
attachments, or of a million short mails in two, were joined within the memory that a full rebuild leaves for it."""
_PLACE = ("source_kind", "parent_id", "attachment_id", "content_class", "byte_start", "byte_end")
_MOST_BYTES = 1 << 18
"""Bytes of a text from which the words of its chunks are taken: a search unpacks it for each hit."""
_TABLES = f"""
CREATE TABLE chunks (chunk_key, {", ".join(_PLACE)}, text_key, own_size, own, size, facts);
CREATE TABLE texts (key, size, text);
"""
# Once the rows are there: their keys are in no order.
_BY_CHUNK = "CREATE UNIQUE INDEX by_chunk ON chunks (chunk_key)"
_BY_TEXT = "CREATE UNIQUE INDEX IF NOT EXISTS by_text ON texts (key)"
ROW_FACTS = {
    **{name: f"c.{name}" for name in ("chunk_id", "doc_id", "chunk_kind", "source", "title", "spans")},
    "filename": "a.filename", "breadcrumb": "n.breadcrumb", "node_start": "n.heading_start", "node_end": "n.byte_end",
    **{name: f"d.{name}" for name in ("list_id", "subject", "path", "from_name", "from_addr")},
    "effective_at": "epoch_us(d.effective_at)", "thread_id": "p.thread_id", "thread_subject": "t.subject",
    "thread_position": "p.position", "thread_size": "t.message_count", "answered_name": "w.name",
    "answered_text": "nullif(k.context, '')", "inferred_quotes": "i.ranges",
    "block_index": "CASE WHEN c.attachment_id IS NULL AND c.byte_start IS NOT NULL "
    "THEN len([e FOR e IN b.block_ends IF e <= c.byte_start]) END",
    "page": "CASE WHEN g.starts IS NOT NULL THEN len([s FOR s IN g.starts IF s <= c.byte_start]) END",
    "page_breaks": "[s FOR s IN g.starts IF s > c.byte_start AND s < c.byte_end]",
}  # fmt: skip
"""The expression of SQL for each fact that only hits show."""
_SQL = SqlFile(__file__, "hit_rows.sql", facts=", ".join(ROW_FACTS.values()))


class HitRows:
    """The rows of a version's chunks, with facts of their mail, document, section and thread, and stored texts."""

    def __init__(self, folder: Path, chunk_keys: np.ndarray):
        """`chunk_keys` has the key of each chunk by its number."""
        self.folder, self._keys, self._lock = folder, chunk_keys, threading.Lock()
        self._files = [
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
            for path in (folder / FILE, folder / LATER)
            if path.exists()
        ]
        self._cache: dict[int, dict[str, Any]] = {}
        self.shown: Callable[[Sequence[str | None]], Sequence[str | None]] = list
        """Gives the texts that these rows may have references to."""

    def of(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The row of each of these chunks, by its number.

        That is `chunk_no` and its columns of `schemas.SEARCH_HITS`; `title`, `text_display`, `spans`, `content_class`;
        `node_start` and `node_end` of its section; `page_breaks`, where in it pages begin; `text_key`, the key of the
        text that has its bytes. For a mail `answered_name` and `answered_text` are the author and, for a short reply,
        words of the mail it answers, and `inferred_quotes` the bytes of unmarked quotes."""
        numbers, cache = {*chunks}, self._cache
        rows = self._by_chunk(numbers - cache.keys(), "text_key", "own_size", "own", "size", "facts")
        texts = self.texts(row["text_key"] for row in rows.values() if row["own"] is None)
        cache = cache | {number: self._row(texts, **row) for number, row in rows.items()}
        # A second look reads most of the described rows.
        self._cache = cache if len(cache) <= _KNOWN_ROWS else {}
        shown = self.shown([cache[n]["text_display"] for n in numbers])
        return {n: cache[n] | {"text_display": text} for n, text in zip(numbers, shown, strict=True)}

    def places(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The same rows with only the place of each chunk in its mail or document.

        That is `chunk_no`, `source_kind`, `parent_id`, `attachment_id`, `content_class`, `byte_start` and `byte_end`.
        """
        return self._by_chunk({*chunks})

    def texts(self, keys: Iterable[str]) -> dict[str, str]:
        """Stored texts by their keys; those without a text are left out."""
        rows = self._read("SELECT key, size, text FROM texts WHERE key", list({*keys}))
        texts = self.shown([self._unpacked(*row) for row in rows.values()])
        return {key: text for key, text in zip(rows, texts, strict=True) if text is not None}

    def _by_chunk(self, chunks: AbstractSet[int], *more: str) -> dict[int, dict[str, Any]]:
        """The place of each of these chunks in its mail or document, and more columns, by its number."""
        numbers, columns = np.fromiter(chunks, dtype=np.int64, count=len(chunks)), (*_PLACE, *more)
        number_of = dict(
            zip((self._keys[numbers] ^ _SIGN).view(np.int64).tolist(), numbers.tolist(), strict=True)
        )
        rows = self._read(
            f"SELECT chunk_key, {', '.join(columns)} FROM chunks WHERE chunk_key", list(number_of)
        )
        if len(rows) != len(number_of):
            raise self._damaged("a row is missing")
        return {
            (n := number_of[key]): {"chunk_no": n, **dict(zip(columns, row, strict=True))}
            for key, row in rows.items()
        }

    def _read(self, statement: str, keys: Sequence[int] | Sequence[str]) -> dict[Any, list[Any]]:
        """By key the other columns of a statement that ends with the column of keys: later rows replace the first."""
        rows, statement = {}, f"{statement} IN (SELECT value FROM json_each(?))"
        try:
            with self._lock:
                for file in self._files:
                    rows |= {key: row for key, *row in file.execute(statement, [json.dumps(keys)])}
            return rows
        except MemoryError as error:
            raise MemoryLimitError(f"there is not enough memory for the texts of hits ({error})") from error
        except sqlite3.OperationalError as error:
            raise IndexUnavailableError(
                f"the rows of hits in {self.folder} cannot be read ({error}): look at its rights and at the disk"
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _row(
        self, texts: dict[str, str], *, own_size: int, own: bytes | None, size: int, facts: bytes, **row: Any
    ) -> dict[str, Any]:
        """A row as it is returned: with its facts of a hit, by name, and its words, which one of `texts` may have."""
        try:
            row |= dict(zip(ROW_FACTS, json.loads(self._unpacked(size, facts) or ""), strict=True))
            if own is None:
                first = min(span["byte_start"] for span in row["spans"])
                end = max(span["byte_end"] for span in row["spans"])
                row["text_display"] = texts[row["text_key"]].encode()[first:end].strip().decode()
            else:
                row["text_display"] = self._unpacked(own_size, own)
        except (ValueError, LookupError) as error:
            raise self._damaged(error) from error
        at = row["effective_at"]
        row["effective_at"] = None if at is None else _EPOCH + timedelta(microseconds=at)
        return row

    def _unpacked(self, size: int | None, text: bytes | None) -> str | None:
        if not size or text is None:
            return None if text is None else ""
        try:
            return _CODEC.decompress(text, size, asbytes=True).decode()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, fault: object) -> IndexUnavailableError:
        """The fault of a file whose content differs from what was written."""
        return IndexUnavailableError(
            f"the file of hits in {self.folder} is damaged ({fault}): delete its folder, and the next search makes it again"
        )


def write_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the files that HitRows reads, of the version that `connection` reads."""
    with closing(_open(folder / FILE)) as file:
        file.executescript(_TABLES)
        for documents in _all_documents(connection):
            _write(connection, file, documents, documents)
        file.execute(_BY_CHUNK)


def update_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path, before: Path) -> None:
    """Write the files that HitRows reads beside those of `before`, the folder of the version before.

    They have the rows of the documents that the temporary table `changed_facts` names, and the texts of those in
    `changed_texts`. Rows of chunks that went stay until the next full rebuild. ValueError if a file that is copied
    differs from what was written."""
    os.link(before / FILE, folder / FILE)
    if has_later := (before / LATER).exists():
        require_intact(before, [before / LATER])
        shutil.copyfile(before / LATER, folder / LATER)
    with closing(_open(folder / LATER)) as file:
        if not has_later:
            file.executescript(_TABLES + _BY_CHUNK)
        _write(connection, file, "changed_facts", "changed_texts")


def _open(path: Path) -> sqlite3.Connection:
    """A file of a folder that is not in its place yet, so that no journal is needed.

    Its pages have 16 KiB: of four, rows of a kilobyte leave a tenth of the file empty."""
    file = sqlite3.connect(path, isolation_level=None)
    file.executescript("PRAGMA page_size = 16384; PRAGMA journal_mode = OFF;")
    file.executescript("PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")
    return file


def _all_documents(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The name of a table of documents, group after group: joined at once, all would not fit in memory."""
    connection.execute(_SQL("documents_with_chunks", at_once=str(_CHUNKS_AT_ONCE)))
    parts = connection.execute("SELECT DISTINCT part FROM documents_with_chunks ORDER BY part").fetchall()
    for (part,) in parts:
        connection.execute(_SQL("written_documents", part=str(part)))
        yield "written_documents"
    for table in ("documents_with_chunks", "written_documents"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _write(connection: duckdb.DuckDBPyConnection, file: sqlite3.Connection, facts: str, texts: str) -> None:
    """Write the rows of the documents that the table `facts` names, and the texts of those in `texts`."""
    file.execute("BEGIN")
    for key, text in _batches(connection, _SQL("texts", documents=texts)):
        _insert(file, "texts", [key, *_packed(text)])
    file.execute(_BY_TEXT)
    for *columns, keys, first, end, words, row in _batches(connection, _SQL("chunks", documents=facts)):
        stored = _short_texts(file, {*keys})
        places = zip(keys, first, end, words, strict=True)
        own = [
            None if key in stored and stored[key][start:stop].strip() == word else word
            for key, start, stop, word in places
        ]
        _insert(file, "chunks", [*columns, keys, *_packed(own), *_packed(row)])
    file.execute("COMMIT")


def _batches(connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator[list[list[Any]]]:
    """The columns of the rows of a statement, some rows at a time; texts that are to be packed are bytes."""
    for batch in connection.execute(statement).to_arrow_reader(_ROWS_AT_ONCE):
        yield [column.to_pylist() for column in batch.columns]


def _short_texts(file: sqlite3.Connection, keys: set[str]) -> dict[str, bytes]:
    """Those of the written texts that rows refer to."""
    rows = file.execute(
        "SELECT key, size, text FROM texts WHERE key IN (SELECT value FROM json_each(?)) AND size BETWEEN 1 AND ?",
        [json.dumps([*keys]), _MOST_BYTES],
    )
    return {key: _CODEC.decompress(text, size, asbytes=True) for key, size, text in rows}


def _packed(texts: list[bytes | None]) -> tuple[list[int | None], list[bytes | None]]:
    """The sizes of texts, and the compressed texts."""
    sizes = [None if text is None else len(text) for text in texts]
    return sizes, [text and _CODEC.compress(text, asbytes=True) for text in texts]


def _insert(file: sqlite3.Connection, table: str, columns: Sequence[list[Any]]) -> None:
    marks = ", ".join("?" * len(columns))
    file.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", zip(*columns, strict=True))
