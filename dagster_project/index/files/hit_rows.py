"""The row of a hit, and the text it is in, in SQLite files beside a published file.

A table of a published file is read in thousands of rows; these cost as much as the few rows that
are read. Facts that only hits show are JSON, which is compressed with that of the rows beside it,
as a text is with its neighbours.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.checksums import damaged, require_intact
from dagster_project.system.sql_files import SqlFile
from transforms.errors import IndexUnavailableError, MemoryLimitError

FILE, LATER = "hits.sqlite", "later_hits.sqlite"
"""The rows of the last full rebuild, which versions share, and those of chunks that came or changed
since.
"""
_CODEC = pa.Codec("zstd", compression_level=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_AT_ONCE = 1 << 10
_SIGN = np.uint64(1 << 63)
"""Difference between a key and its number in SQLite, which is signed."""
_KNOWN_ROWS, _KNOWN_TEXTS = 256, 64
"""Rows and short texts that are remembered: a search reads those of its hits several times."""
_CHUNKS_AT_ONCE = 1 << 19
"""Chunks of a group of documents that are written together; the facts of four times as many of
mails with long attachments, or of a million short mails in two, were joined within the memory that
a full rebuild leaves for it.
"""
_PLACE = ("source_kind", "parent_id", "attachment_id", "content_class", "byte_start", "byte_end")
_MOST_BYTES = 1 << 18
"""Bytes of a text from which the words of its chunks are taken: a search unpacks it for each hit.
"""
_COLUMNS = {
    "chunks": ("chunk_key", *_PLACE, "text_key", "pack", "start", "stop"),
    "texts": ("key", "pack", "start", "stop"),
}
"""The columns of the tables of rows and of texts, the key first; `row_sum` is their checksum."""
_IN_PACK = ("size", "data", "data_sum")
_SHORT_TEXTS = """
SELECT key, size, data, start, stop FROM texts JOIN packs ON packs.rowid = pack
WHERE key IN (SELECT value FROM json_each(?)) AND stop - start BETWEEN 1 AND ?
"""
_REMOVE_UNUSED = """
DELETE FROM packs
WHERE rowid NOT IN (SELECT pack FROM chunks UNION SELECT pack FROM texts WHERE pack IS NOT NULL)
"""
_ROW_BYTES, _TEXT_BYTES = 1 << 13, 1 << 15
"""Bytes of a pack of rows and of one of texts: alone, each of them would take nearly twice the
room, and larger packs take longer to unpack than they save.
"""
_TABLES = "".join(
    f"CREATE TABLE {table} ({', '.join(columns)}, row_sum);" for table, columns in _COLUMNS.items()
)
_LISTED = "IN (SELECT value FROM json_each(?))"
_OF_PACKS = "SELECT rowid, size, data, data_sum FROM packs WHERE rowid " + _LISTED
_PACKS = f"CREATE TABLE packs ({', '.join(_IN_PACK)});"
# Once the rows are there: their keys are in no order.
_BY_CHUNK = "CREATE UNIQUE INDEX by_chunk ON chunks (chunk_key)"
_BY_TEXT = "CREATE UNIQUE INDEX IF NOT EXISTS by_text ON texts (key)"
ROW_FACTS = {
    **{
        name: f"c.{name}"
        for name in ("chunk_id", "doc_id", "chunk_kind", "source", "title", "spans")
    },
    "filename": "a.filename",
    "breadcrumb": "n.breadcrumb",
    "node_start": "n.heading_start",
    "node_end": "n.byte_end",
    **{name: f"d.{name}" for name in ("list_id", "subject", "path", "from_name", "from_addr")},
    "effective_at": "epoch_us(d.effective_at)",
    "thread_id": "p.thread_id",
    "thread_subject": "t.subject",
    "thread_position": "p.position",
    "thread_size": "t.message_count",
    "answered_id": "w.answered_id",
    "answered_name": "w.name",
    "answered_text": "nullif(k.context, '')",
    "inferred_quotes": "i.ranges",
    "block_index": "CASE WHEN c.attachment_id IS NULL AND c.byte_start IS NOT NULL "
    "THEN len([e FOR e IN b.block_ends IF e <= c.byte_start]) END",
    "page": "CASE WHEN g.starts IS NOT NULL THEN len([s FOR s IN g.starts IF s <= c.byte_start]) END",
    "page_breaks": "[s FOR s IN g.starts IF s > c.byte_start AND s < c.byte_end]",
}
"""The expression of SQL for each fact that only hits show."""
_FACTS = (*ROW_FACTS, "text_display")
_SQL = SqlFile(__file__, "hit_rows.sql", facts=", ".join(ROW_FACTS.values()))


class HitRows:
    """The rows of a version's chunks, with facts of their mail, document, section and thread, and
    stored texts.
    """

    def __init__(self, folder: Path, chunk_keys: np.ndarray):
        """`chunk_keys` has the key of each chunk by its number."""
        self.folder, self._keys, self._lock = folder, chunk_keys, threading.Lock()
        self._files = [
            sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            for path in (folder / FILE, folder / LATER)
            if path.exists()
        ]
        self._cache: dict[int, dict[str, Any]] = {}
        self._texts: dict[str, str | None] = {}
        self.shown: Callable[[Sequence[str | None]], Sequence[str | None]] = list
        """Gives the texts that these rows may have references to."""

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def of(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The row of each of these chunks, by its number.

        That is `chunk_no` and its columns of `schemas.SEARCH_HITS`; `title`, `text_display`,
        `spans`, `content_class`; `node_start` and `node_end` of its section; `page_breaks`, where
        in it pages begin; `text_key`, the key of the text that has its bytes. For a mail
        `answered_name` and `answered_text` are the author and, for a short reply, words of the mail
        it answers, and `inferred_quotes` the bytes of unmarked quotes.
        """
        numbers, cache = {*chunks}, self._cache
        stored = self._by_chunk(numbers - cache.keys())
        rows = {
            number: self._with_facts(number, row, facts)
            for (number, row), facts in zip(
                stored.items(), self._unpacked([*stored.values()]), strict=True
            )
        }
        texts = self.texts(row["text_key"] for row in rows.values() if row["text_display"] is None)
        encoded = {key: text.encode() for key, text in texts.items()}
        cache = cache | {number: self._with_words(row, encoded) for number, row in rows.items()}
        # A second look reads most of the described rows.
        recent = islice(numbers, _KNOWN_ROWS)
        self._cache = cache if len(cache) <= _KNOWN_ROWS else {n: cache[n] for n in recent}
        shown = self.shown([cache[n]["text_display"] for n in numbers])
        return {
            n: cache[n] | {"text_display": text} for n, text in zip(numbers, shown, strict=True)
        }

    def places(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The same rows with only the place of each chunk in its mail or document.

        That is `chunk_no`, `source_kind`, `parent_id`, `attachment_id`, `content_class`,
        `byte_start` and `byte_end`.
        """
        return {
            number: {"chunk_no": number, **{name: row[name] for name in _PLACE}}
            for number, row in self._by_chunk({*chunks}).items()
        }

    def texts(self, keys: Iterable[str]) -> dict[str, str]:
        """Stored texts by their keys; those without a text are left out."""
        sought, known = {*keys}, self._texts
        rows = self._read("texts", [*sought - known.keys()])
        unpacked = self._unpacked([*rows.values()])
        known = known | {
            key: None if text is None else self._decoded(text)
            for key, text in zip(rows, unpacked, strict=True)
        }
        recent = known if len(known) <= _KNOWN_TEXTS else {key: known[key] for key in rows}
        self._texts = {key: text for key, text in recent.items() if len(text or "") < _MOST_BYTES}
        present = [key for key in sought if key in known]
        texts = self.shown([known[key] for key in present])
        return {key: text for key, text in zip(present, texts, strict=True) if text is not None}

    def _by_chunk(self, chunks: AbstractSet[int]) -> dict[int, dict[str, Any]]:
        """The stored row of each of these chunks by its number, as `_read` has it."""
        numbers = np.fromiter(chunks, dtype=np.int64, count=len(chunks))
        number_of = dict(
            zip(
                (self._keys[numbers] ^ _SIGN).view(np.int64).tolist(), numbers.tolist(), strict=True
            )
        )
        rows = self._read("chunks", list(number_of))
        if len(rows) != len(number_of):
            raise self._damaged("a row is missing")
        return {number_of[key]: row for key, row in rows.items()}

    def _read(self, table: str, keys: Sequence[int] | Sequence[str]) -> dict[Any, dict[str, Any]]:
        """By key the rows of a table, with the number of the file of each (`file`): later rows
        replace the first.
        """
        names, rows = _COLUMNS[table], {}
        statement = f"SELECT {', '.join(names)}, row_sum FROM {table} WHERE {names[0]} {_LISTED}"
        for number in range(len(self._files)):
            for *row, checksum in self._fetched(number, statement, keys):
                if _row_sum(row) != checksum:
                    raise self._damaged("a row is not what was written")
                rows[row[0]] = dict(zip(names, row, strict=True), file=number)
        return rows

    def _unpacked(self, rows: Sequence[Mapping[str, Any]]) -> list[bytes | None]:
        """The text of each row of `_read`, None if it is in no pack; each pack is unpacked once."""
        packs: dict[tuple[int, int], bytes] = {}
        try:
            for number in range(len(self._files)):
                own = {row["pack"] for row in rows if row["file"] == number} - {None}
                for pack, size, data, written in self._fetched(number, _OF_PACKS, [*own]):
                    if crc32(data, size) != written:
                        raise self._damaged("a text is not what was written")
                    packs[number, pack] = _unpacked(size, data)
            return [
                None
                if row["start"] is None
                else packs[row["file"], row["pack"]][row["start"] : row["stop"]]
                for row in rows
            ]
        except (pa.ArrowException, OSError, TypeError, ValueError, LookupError) as error:
            raise self._damaged(error) from error

    def _fetched(
        self, number: int, statement: str, keys: Sequence[int] | Sequence[str]
    ) -> list[Any]:
        """The rows of a statement on one of the files, with the keys as its list."""
        if not keys:
            return []
        try:
            with self._lock:
                return self._files[number].execute(statement, [json.dumps(keys)]).fetchall()
        except MemoryError as error:
            raise MemoryLimitError(
                f"there is not enough memory for the texts of hits ({error})"
            ) from error
        except sqlite3.OperationalError as error:
            raise IndexUnavailableError(
                f"the rows of hits in {self.folder} cannot be read ({error}): look at its rights and at the disk"
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _with_facts(
        self, number: int, stored: Mapping[str, Any], facts: bytes | None
    ) -> dict[str, Any]:
        """The row of a chunk with its facts of a hit, by name, and its words, None if its text has
        them.
        """
        row = {"chunk_no": number, **{name: stored[name] for name in (*_PLACE, "text_key")}}
        try:
            row |= dict(zip(_FACTS, json.loads(facts or ""), strict=True))
        except ValueError as error:
            raise self._damaged(error) from error
        at = row["effective_at"]
        row["effective_at"] = None if at is None else _EPOCH + timedelta(microseconds=at)
        return row

    def _with_words(self, row: dict[str, Any], texts: Mapping[str, bytes]) -> dict[str, Any]:
        """The row as it is returned, with its words, which one of `texts` may have."""
        if row["text_display"] is None:
            try:
                first = min(span["byte_start"] for span in row["spans"])
                end = max(span["byte_end"] for span in row["spans"])
                row["text_display"] = self._decoded(texts[row["text_key"]][first:end].strip())
            except (ValueError, LookupError) as error:
                raise self._damaged(error) from error
        return row

    def _decoded(self, text: bytes) -> str:
        """A stored text."""
        try:
            return text.decode()
        except ValueError as error:
            raise self._damaged(error) from error

    def _damaged(self, fault: object) -> IndexUnavailableError:
        """The fault of a file whose content differs from what was written."""
        return damaged(self.folder, f"rows of hits: {fault}")


def write_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the files that HitRows reads, of the version that `connection` reads."""
    with closing(_open(folder / FILE)) as file:
        file.executescript(_TABLES + _PACKS)
        for documents in _all_documents(connection):
            _write(connection, file, documents, documents)
        file.execute(_BY_CHUNK)


def update_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path, before: Path) -> None:
    """Write the files that HitRows reads beside those of `before`, the folder of the version
    before.

    They have the rows of the documents that the temporary table `changed_facts` names, and the
    texts of those in `changed_texts`. Rows of chunks that went stay until the next full rebuild.
    ValueError if a file that is copied differs from what was written.
    """
    os.link(before / FILE, folder / FILE)
    if has_later := (before / LATER).exists():
        require_intact(before, [before / LATER])
        shutil.copyfile(before / LATER, folder / LATER)
    with closing(_open(folder / LATER)) as file:
        if not has_later:
            file.executescript(_TABLES + _PACKS + _BY_CHUNK)
        _write(connection, file, "changed_facts", "changed_texts")
        file.execute(_REMOVE_UNUSED)


def _open(path: Path) -> sqlite3.Connection:
    """A file of a folder that is not in its place yet, so that no journal is needed.

    Its pages have 8 KiB: of 16, packs leave a fifth of the file empty.
    """
    file = sqlite3.connect(path, isolation_level=None)
    file.executescript("PRAGMA page_size = 8192; PRAGMA journal_mode = OFF;")
    file.executescript("PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")
    return file


def _all_documents(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The name of a table of documents, group after group: joined at once, all would not fit in
    memory.
    """
    connection.execute(_SQL("documents_with_chunks", at_once=str(_CHUNKS_AT_ONCE)))
    parts = connection.execute(
        "SELECT DISTINCT part FROM documents_with_chunks ORDER BY part"
    ).fetchall()
    for (part,) in parts:
        connection.execute(_SQL("written_documents", part=str(part)))
        yield "written_documents"
    for table in ("documents_with_chunks", "written_documents"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _write(
    connection: duckdb.DuckDBPyConnection, file: sqlite3.Connection, facts: str, texts: str
) -> None:
    """Write the rows of the documents that the table `facts` names, and the texts of those in
    `texts`.
    """
    file.execute("BEGIN")
    for key, text in _batches(connection, _SQL("texts", documents=texts)):
        _insert(file, "texts", _summed([key, *_packed(file, text, _TEXT_BYTES)]))
    file.execute(_BY_TEXT)
    for *columns, keys, first, end, words, row in _batches(
        connection, _SQL("chunks", documents=facts)
    ):
        stored = _short_texts(file, {*keys})
        rows: list[bytes | None] = []
        for key, start, stop, word, facts_of_row in zip(keys, first, end, words, row, strict=True):
            is_stored = key in stored and stored[key][start:stop].strip() == word
            own = json.dumps(None if is_stored else word.decode(), ensure_ascii=False)
            rows.append(facts_of_row[:-1] + b"," + own.encode() + b"]")
        _insert(file, "chunks", _summed([*columns, keys, *_packed(file, rows, _ROW_BYTES)]))
    file.execute("COMMIT")


def _batches(connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator[list[list[Any]]]:
    """The columns of the rows of a statement, some rows at a time; texts that are to be packed are
    bytes.
    """
    for batch in connection.execute(statement).to_arrow_reader(_ROWS_AT_ONCE):
        yield [column.to_pylist() for column in batch.columns]


def _short_texts(file: sqlite3.Connection, keys: set[str]) -> dict[str, bytes]:
    """Those of the written texts that rows refer to."""
    rows = file.execute(_SHORT_TEXTS, [json.dumps([*keys]), _MOST_BYTES])
    return {key: _unpacked(size, data)[start:stop] for key, size, data, start, stop in rows}


def _unpacked(size: int | None, data: bytes | None) -> bytes:
    return _CODEC.decompress(data, size, asbytes=True) if size else b""


def _packed(
    file: sqlite3.Connection, texts: list[bytes | None], most: int
) -> list[list[int | None]]:
    """Write texts in packs of at most `most` bytes, or of one text: the pack of each, and where in
    it it starts and ends.
    """
    (first,) = file.execute("SELECT coalesce(max(rowid), 0) + 1 FROM packs").fetchone()
    packs, rows = [b""], []
    for text in texts:
        if text and packs[-1] and len(packs[-1]) + len(text) > most:
            packs.append(b"")
        start = len(packs[-1])
        packs[-1] += text or b""
        rows.append(
            (None, None, None) if text is None else (first + len(packs) - 1, start, len(packs[-1]))
        )
    sizes, data = [*map(len, packs)], [_CODEC.compress(pack, asbytes=True) for pack in packs]
    _insert(file, "packs", [sizes, data, [*map(crc32, data, sizes)]])
    return [[row[column] for row in rows] for column in range(3)]


def _row_sum(row: Sequence[Any]) -> int:
    return crc32("\0".join(map(str, row)).encode())


def _summed(columns: Sequence[list[Any]]) -> list[list[Any]]:
    """Columns, and one with the checksum of each row."""
    return [*columns, [_row_sum(row) for row in zip(*columns, strict=True)]]


def _insert(file: sqlite3.Connection, table: str, columns: Sequence[list[Any]]) -> None:
    marks = ", ".join("?" * len(columns))
    file.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", zip(*columns, strict=True))
