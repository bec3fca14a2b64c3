"""The cache of a lake on this machine: the facts of footers between runs, and copies of files of an object store."""

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import pyarrow as pa
from upath import UPath

from dagster_project.lake.parquet_files import MISSING, Entries, ParquetFooter, read_entries
from transforms.hashing import text_hash
from transforms.schemas.table import Table

_UNREAD = pa.schema([])
"""In place of the columns of a stored footer, which are compared by their digest."""
_KEPT = "CREATE TABLE IF NOT EXISTS footers (path TEXT PRIMARY KEY, etag, columns, written, rows, checksum)"
"""With other columns, the table and its file get another name."""
_Read = Callable[[], Entries | str]
_Row = tuple[str, str, str, int]
"""The state of the file (its ETag in a store), digest of the columns, the facts that Weft wrote as JSON, rows."""


class KeptFooters:
    """The footers of files by their paths, as `file` keeps them; without it, or with another's, all are read again."""

    def __init__(self, file: Path):
        self.file = file
        self.rows = self._load()
        self.new: dict[str, _Row] = {}
        self._declared: dict[str, tuple[Table, str]] = {}

    def entries(self, path: str, state: str, table: Table, read: _Read) -> Entries | str:
        """The entries of the footer of a file with any columns, or its fault; read if the state is another than before."""
        row = self._row(path, state, table, read)
        return row if isinstance(row, str) else Entries(_UNREAD, json.loads(row[2]), row[3])

    def footer(
        self, path: str, state: str, table: Table, read: _Read, *, is_list: bool
    ) -> ParquetFooter | str:
        """The footer of a file of a table, or its fault; a list of parts (`is_list`) must have no rows."""
        row = self._row(path, state, table, read)
        if isinstance(row, str):
            return row
        _, columns, metadata, rows = row
        is_declared = columns == self._digest(table) and not (is_list and rows)
        return Entries(_UNREAD, json.loads(metadata), rows).footer(is_declared=is_declared)

    def _row(self, path: str, state: str, table: Table, read: _Read) -> _Row | str:
        row = self.rows.get(path)
        if row is None or row[0] != state:
            entries = read()
            if isinstance(entries, str):
                return entries
            # Types may be equal and spelled otherwise: a list of elements is one of items.
            arrow, own = table.arrow, entries.columns
            is_declared = own.names == arrow.names and own.types == arrow.types
            columns = self._digest(table) if is_declared else _digest(own)
            row = (state, columns, json.dumps(dict(entries.written)), entries.rows)
            self.rows[path] = self.new[path] = row
        return row

    def _digest(self, table: Table) -> str:
        """The digest of the columns of a table, which takes as long as to read a footer."""
        last = self._declared.get(table.name)
        if last is None or last[0] is not table:
            last = self._declared[table.name] = (table, _digest(table.arrow))
        return last[1]

    def _load(self) -> dict[str, _Row]:
        try:
            with closing(
                sqlite3.connect(f"{self.file.absolute().as_uri()}?mode=ro", uri=True)
            ) as connection:
                rows = connection.execute("SELECT * FROM footers").fetchall()
        except sqlite3.DatabaseError:
            return {}
        return {
            path: tuple(row) for path, *row, checksum in rows if checksum == _checksum(path, row)
        }

    def keep(self, paths: Iterable[str]) -> None:
        """Write the footers that were read, and forget the files that are gone; does nothing where it may not write."""
        paths = list(paths)
        new, self.new = list(self.new.items()), {}  # other threads go on reading
        if not (new or paths):
            return
        for path in paths:
            self.rows.pop(path, None)
        with suppress(OSError, sqlite3.OperationalError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._write(new, paths)
            except sqlite3.OperationalError:
                raise
            except (
                sqlite3.DatabaseError
            ):  # another's file, or one cut off: its footers are read again
                self.file.unlink(missing_ok=True)
                self._write(list(self.rows.items()), [])

    def _write(self, new: Iterable[tuple[str, _Row]], paths: Iterable[str]) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(
                "PRAGMA synchronous = OFF"
            )  # rows that a power cut spoils are read again
            connection.execute(_KEPT)
            connection.executemany(
                "DELETE FROM footers WHERE path = ?", [(path,) for path in paths]
            )
            rows = [(path, *row, _checksum(path, row)) for path, row in new]
            connection.executemany("INSERT OR REPLACE INTO footers VALUES (?, ?, ?, ?, ?, ?)", rows)


class LocalFooters:
    """The footers of a lake on this machine; a look asks the file system alone."""

    def __init__(self, file: Path):
        self.footers = KeptFooters(file)
        self._answers: dict[tuple[str, bool], tuple[str, Table, ParquetFooter]] = {}

    def footer(self, path: str, table: Table, *, is_list: bool) -> ParquetFooter | str:
        """The footer of a stored file, or its fault; one that is as it was is not read again."""
        try:
            stat = os.stat(path)  # noqa: PTH116 - a path object takes longer than the look
        except FileNotFoundError:
            return MISSING
        except OSError as error:
            return str(error)
        state = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
        last = self._answers.get((path, is_list))
        if last and last[0] == state and last[1] == table:
            return last[2]
        footer = self.footers.footer(
            path, state, table, lambda: read_entries(Path(path)), is_list=is_list
        )
        if isinstance(footer, ParquetFooter):
            self._answers[path, is_list] = (state, table, footer)
        return footer

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Keep the footers that are read meanwhile, if nothing fails."""
        yield
        if self.footers.new:
            paths = {path for path, _ in list(self._answers)}
            self.footers.keep(
                path for path in self.footers.rows.keys() - paths if not Path(path).exists()
            )


local_footers = cache(LocalFooters)
"""Gives the one of this process that keeps footers in a file."""


def _checksum(path: str, row: Sequence[object]) -> int:
    """The checksum of a row: SQLite takes the bytes of its pages as they are."""
    return crc32(repr((path, *row)).encode("utf-8", "surrogatepass"))


def _digest(columns: pa.Schema) -> str:
    return text_hash(f"{columns.names} {columns.types}")


PARTIAL = ".tmp-"
"""Begins the names of files that are being written; a process id follows."""


class FooterCopies:
    """The copies in a folder: DuckDB requests the same metadata of a remote file hundreds of times."""

    def __init__(self, folder: Path):
        self.folder = folder

    def of(self, place: UPath) -> Path:
        """The copy of a remote file as it is now; FileNotFoundError if it does not exist."""
        copy = self.folder / f"{_prefix(place)}{place.fs.ukey(place.path)}.parquet"
        if not copy.exists():
            temporary = self.temporary()
            place.fs.get_file(place.path, str(temporary))
            temporary.replace(copy)
        return copy

    def temporary(self) -> Path:
        """A name for a new file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{PARTIAL}{os.getpid()}-{secrets.token_hex(6)}"

    def drop(self, place: UPath) -> None:
        """Delete the copies of a remote file."""
        for copy in self.folder.glob(f"{_prefix(place)}*"):
            copy.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the copies that a later copy of the same file has replaced."""
        latest: dict[str, Path] = {}
        for copy in sorted(self.folder.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns):
            of = copy.name.partition("-")[0]
            if of in latest:
                latest[of].unlink(missing_ok=True)
            latest[of] = copy


def _prefix(place: UPath) -> str:
    return f"{blake2b(str(place).encode(), digest_size=12).hexdigest()}-"
