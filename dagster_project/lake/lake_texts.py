"""Texts that stay in the lake: what a published file has in their place, and how a reader gets them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb.func import PythonUDFType
from duckdb.sqltypes import VARCHAR
from upath import UPath

from dagster_project.lake.parquet_files import checked, is_local, opened
from transforms.errors import IndexUnavailableError

TEXTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "messages": ("message_id", ("body",)),
    "attachments": ("attachment_id", ("text",)),
    "documents": ("doc_id", ("text",)),
    "conversation_windows": ("doc_id", ("markdown",)),
    "chunks": ("chunk_id", ("text_display", "text_embed")),
}
"""The texts of the published tables: the column that names a row in the lake, and those that stay there."""
PLACE = "texts_in"
"""What the manifest calls the place of the lake: a path from the folder of the file, or an address."""
_MARK = "\x1f"
"""Begins a reference, and divides its parts."""
_DIGITS = 16
_CACHED_BYTES = 64 << 20
_FILES_AT_ONCE = 8


class _Reference(NamedTuple):
    """Where a text stands: table, column, partition, the id of its row, and the beginning of its MD5 hash."""

    table: str
    column: str
    partition: str
    id: str
    digest: str


def referring(published: str, table: str, partition: str, columns: Iterable[str]) -> list[str]:
    """Columns of a file of the lake as they are selected for a published table: a reference in place of each text."""
    key, texts = TEXTS.get(published, ("", ()))
    return [
        f"CASE WHEN {name} IS NOT NULL THEN concat_ws(chr(31), '', '{table}', '{name}', "
        f"'{partition.replace(chr(39), chr(39) * 2)}', {key}, md5({name})[:{_DIGITS}]) END AS {name}"
        if name in texts
        else f'"{name}"'
        for name in columns
    ]


def place_from(file: Path, lake: UPath) -> str:
    """The place of a lake as the manifest of a published file says it."""
    return os.path.relpath(str(lake), file.parent) if is_local(lake) else str(lake)


def texts_of(file: Path, facts: Mapping[str, str]) -> LakeTexts | None:
    """The texts of a published file with this manifest that stay in the lake; None if it has its own."""
    if PLACE not in facts:
        return None
    return LakeTexts(UPath(facts[PLACE]) if "://" in facts[PLACE] else UPath(file.parent / facts[PLACE]))


def show(connection: duckdb.DuckDBPyConnection, file: Path) -> LakeTexts | None:
    """Let a connection, whose default database is a published file, show its texts; None if the file has its own.

    Temporary views stand before the tables, also for its macros and views, and read a text for each row that simple
    conditions leave; of rows that joins choose, see `show_stored`.
    """
    texts = texts_of(file, dict(connection.execute("SELECT key, value FROM manifest").fetchall()))
    if texts:
        texts.add_function(connection)
        schema = _schema(connection)
        for table, (_, columns) in TEXTS.items():
            shown = ", ".join(f"lake_text({name}) AS {name}" for name in columns)
            connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT * REPLACE ({shown}) FROM {schema}.{table}"
            )
    return texts


def show_stored(connection: duckdb.DuckDBPyConnection, texts: LakeTexts | None) -> None:
    """After `show`, which returned `texts`: let statements take `stored_<table>`, which has `rowid` and maybe references.

    They apply `lake_text` to the rows that their joins leave; what a view selects is read before a join chooses.
    """
    statements = [] if texts else ["CREATE TEMP MACRO lake_text(reference) AS reference"]
    schema = _schema(connection)
    statements += [f"CREATE TEMP VIEW stored_{t} AS SELECT rowid, * FROM {schema}.{t}" for t in TEXTS]
    connection.execute(";".join(statements))


def _schema(connection: duckdb.DuckDBPyConnection) -> str:
    """The name of the tables' schema in the default database, whatever views stand before them."""
    (database,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    return f'"{database}".main'


class LakeTexts:
    """Reads the texts that references name. A text that the lake no longer has is empty: the next publish leaves it out."""

    def __init__(self, lake: UPath):
        self.lake = lake
        self._cached: OrderedDict[str, str] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()

    def add_function(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let the statements of a connection call `lake_text`."""

        def lake_text(references: pa.Array) -> pa.Array:
            return pa.array(self.of(references.to_pylist()), pa.string())

        connection.create_function("lake_text", lake_text, [VARCHAR], VARCHAR, type=PythonUDFType.ARROW)

    def of(self, values: Sequence[str | None]) -> list[str | None]:
        """The texts that values refer to; what is no reference is returned as it is.

        IndexUnavailableError if the lake cannot be read.
        """
        wanted = {value for value in values if value and value.startswith(_MARK)}
        with self._lock:
            found = {value: self._cached[value] for value in wanted & self._cached.keys()}
        by_file: dict[tuple[str, str, str], dict[_Reference, str]] = defaultdict(dict)
        for value in wanted - found.keys():
            reference = _Reference(*value[1:].split(_MARK))
            by_file[reference[:3]][reference] = value
        for texts in self._read_all(list(by_file.values())):
            found |= texts
            self._remember(texts)
        return [found.get(value, "") if value in wanted else value for value in values]

    def _read_all(self, files: Sequence[Mapping[_Reference, str]]) -> Iterable[dict[str, str]]:
        if len(files) < 2:
            return [self._read(references) for references in files]
        with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
            return list(threads.map(self._read, files))

    def _read(self, references: Mapping[_Reference, str]) -> dict[str, str]:
        """The texts that references to a column of one file name, by reference; none that is another by now."""
        table, column, partition, _, _ = next(iter(references))
        source, _, name = partition.partition("/")
        path = self.lake.joinpath(table, source, f"{name}.parquet")
        try:
            with opened(path) if is_local(path) else path.open("rb", cache_type="none") as file:
                rows = list(_rows(checked(file), {reference.id for reference in references}, column))
        except FileNotFoundError as error:
            if self.lake.exists():
                return {}
            raise IndexUnavailableError(
                f"{self.lake}, where the texts of this index are, is not there: bring it back, or see that this machine "
                "sees it"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise IndexUnavailableError(
                f"{path} of the lake, where the texts of this index are, cannot be read ({error}): look at its rights "
                "and at the store; `weft build` makes a damaged file again"
            ) from error
        found = {}
        for id_, text in rows:
            digest = md5(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS]
            if value := references.get(_Reference(table, column, partition, id_, digest)):
                found[value] = text
        return found

    def _remember(self, texts: Mapping[str, str]) -> None:
        with self._lock:
            for value, text in texts.items():
                self._bytes += len(text) if value not in self._cached else 0
                self._cached[value] = text
            while self._bytes > _CACHED_BYTES:
                _, text = self._cached.popitem(last=False)
                self._bytes -= len(text)


def _rows(file: pq.ParquetFile, ids: set[str], column: str) -> Iterator[tuple[str, str]]:
    """Id and text of the rows with these ids, of the row groups that may have them; ids stand in the first column."""
    key = next(k for k, columns in TEXTS.values() if column in columns and k in file.schema_arrow.names)
    place, least, most = file.schema_arrow.names.index(key), min(ids), max(ids)
    for group in range(file.num_row_groups):
        limits = file.metadata.row_group(group).column(place).statistics
        if limits and limits.has_min_max and (limits.max < least or limits.min > most):
            continue
        rows = file.read_row_group(group, [key, column], use_threads=False)
        rows = rows.filter(pc.is_in(rows.column(key), pa.array(sorted(ids))))
        yield from zip(rows.column(key).to_pylist(), rows.column(column).to_pylist(), strict=True)
