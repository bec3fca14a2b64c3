"""The file of the ledger: rows that are whole or missing, written by one process at a time."""

import os
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

STATE = "state.sqlite"
_FOLDER = Path(__file__).parent
_SCHEMA = "".join((_FOLDER / name).read_text("utf-8") for name in ("tables.sql", "plan.sql"))
_LAYOUT = crc32(_SCHEMA.encode()) >> 1
"""Stored in the file; one of another layout is empty."""
_KEYS = dict.fromkeys(("outputs", "partitions", "stages", "reads", "forgets"), 2)
"""The number of columns of a key, if it has more than one."""
_ERASE = """
DELETE FROM files; DELETE FROM exports; DELETE FROM outputs; DELETE FROM looks; DELETE FROM builds;
DELETE FROM partitions; DELETE FROM forgets;
"""
_STEPS = """
SELECT kind, part, table_name, action, reason FROM plan WHERE action <> 'keep'
ORDER BY kind, part, position, table_name
"""
_DELETE = "DELETE FROM {table} WHERE {key}"
_BUSY_SECONDS = 60.0
Row = tuple[str | bytes | int | None, ...]


class PlanStep(NamedTuple):
    """The action of a build on a table of a partition: insert, replace or delete, and its reason."""

    kind: str
    part: str
    table: str
    action: str
    reason: str


def steps_of(rows: Mapping[str, Mapping[Row, Row]]) -> list[PlanStep]:
    """The plan over the rows of the tables that it is a query of, without what is kept."""
    with closing(sqlite3.connect(":memory:")) as connection:
        _begin_anew(connection)
        for table, own in rows.items():
            _insert(connection, table, own)
        return [PlanStep(*row) for row in connection.execute(_STEPS)]


class Ledger:
    """The tables of `tables.sql` in a file that may be lost or damaged at any time.

    A damaged row counts as missing, and a damaged file as empty. Nothing is recorded on a disk that
    may not be written.
    """

    def __init__(self, file: Path):
        self.file = file
        self._faults: list[str] = []

    def rows(self, table: str) -> dict[Row, Row]:
        """The rows of a table by their keys."""
        stored = self._stored(table)
        whole = [row for *row, checksum in stored if checksum == _checksum(row)]
        if len(whole) < len(stored):
            self._faults.append(f"{len(stored) - len(whole):,} rows of {table} are damaged")
        width = _KEYS.get(table, 1)
        return {tuple(row[:width]): tuple(row[width:]) for row in whole}

    def record(self, table: str, rows: Mapping[Row, Row], removed: Collection[Row] = ()) -> None:
        """Write rows by their keys, and delete those that are `removed`."""
        if not (rows or removed):
            return
        with suppress(OSError, sqlite3.OperationalError):
            try:
                self._write(table, rows, removed)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as fault:
                self._lose(fault)
                self._write(table, rows, removed)

    def change(self, table: str, before: Mapping[Row, Row], now: Mapping[Row, Row]) -> None:
        """Record the differences between rows that were read and those of now."""
        self.record(table, dict(now.items() - before.items()), before.keys() - now.keys())

    def erase(self) -> None:
        """Delete all rows that may have names, but since when partitions wait."""
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(self.file)) as connection:
            connection.executescript(_ERASE)

    def take_faults(self) -> list[str]:
        """The damage that was met since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def _stored(self, table: str) -> list[Row]:
        if not self.file.exists():
            return []
        address = f"{self.file.absolute().as_uri()}?mode=ro"
        # Where the disk may not be written, no reader can make the file of locks.
        for options in ("", "&immutable=1"):
            try:
                with closing(
                    sqlite3.connect(address + options, timeout=_BUSY_SECONDS, uri=True)
                ) as connection:
                    if _layout(connection) == _LAYOUT:
                        return connection.execute(f"SELECT * FROM {table}").fetchall()
                    return []
            except sqlite3.OperationalError:
                continue
            except sqlite3.DatabaseError as fault:
                self._lose(fault)
                break
        return []

    def _write(self, table: str, rows: Mapping[Row, Row], removed: Collection[Row]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with closing(
            sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # rows that a power cut spoils are lost
            connection.execute("BEGIN IMMEDIATE")
            if _layout(connection) != _LAYOUT:
                _begin_anew(connection)
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            key = " AND ".join(f"{name} = ?" for _, name, *_, part in columns if part)
            connection.executemany(_DELETE.format(table=table, key=key), removed)
            _insert(connection, table, rows)
            connection.execute("COMMIT")

    def _lose(self, fault: Exception) -> None:
        """Delete the file, which is damaged."""
        self._faults.append(str(fault))
        with suppress(OSError):
            for ending in ("", "-wal", "-shm"):
                self.file.with_name(self.file.name + ending).unlink(missing_ok=True)


@cache
def ledger_in(folder: Path) -> Ledger:
    """The ledger in a folder, one for this process."""
    return Ledger(folder / STATE)


def file_state(path: str | bytes) -> str:
    """Inode, size and times of a file, by which a change is noticed; OSError if it is missing."""
    return state_text(os.stat(path))  # noqa: PTH116 - a path object takes longer than the look


def state_text(stat: os.stat_result) -> str:
    """Inode, size and times as a text: their numbers in this order."""
    return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _insert(connection: sqlite3.Connection, table: str, rows: Mapping[Row, Row]) -> None:
    written = [(*key, *row, _checksum([*key, *row])) for key, row in rows.items()]
    if written:
        marks = ", ".join("?" * len(written[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", written)


def _begin_anew(connection: sqlite3.Connection) -> None:
    """Make the tables and the view in place of those of another layout."""
    old = connection.execute("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL")
    for kind, name in old.fetchall():
        connection.execute(f'DROP {kind} "{name}"')
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {_LAYOUT}")


def _checksum(row: Collection[object]) -> int:
    """The checksum of a row: SQLite takes the bytes of its pages as they are."""
    return crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))
