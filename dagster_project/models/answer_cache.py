"""Answers of services, and vectors, by key: one SQLite file that several processes may share."""

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from os.path import samestat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from dagster_project.system.durable import put
from transforms.errors import AnswerCacheError
from transforms.hashing import parts_hash

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer NOT NULL, checksum)"
_PAGE = "PRAGMA page_size = 32768"
"""Bytes of a page of a new file: five vectors of 3,072 numbers fill it; two would leave a fourth of
half as many empty.
"""
_CHECKSUM = "checksum"
_ROWS_FROM = "SELECT rowid, key, answer, checksum FROM answers WHERE rowid >= ? ORDER BY rowid"
_BUSY_SECONDS = 60.0
_AT_ONCE = 500
_MOST_SKIPPED = 1 << 32
Value = TypeVar("Value", str, bytes)


@dataclass(frozen=True)
class Damage:
    """A file of the cache that cannot be trusted, and why."""

    path: Path
    reason: str

    def discard(self) -> int:
        """Delete the file, or of one in SQLite what cannot be read; returns how many answers stay."""
        if self.path.suffix == ".sqlite":
            return SQLiteAnswerCache(self.path).salvage()
        self.path.unlink(missing_ok=True)
        return 0


class SQLiteCache(Generic[Value]):
    """Answers by key; an answer is on disk when `store` returns."""

    def __init__(self, path: Path):
        self.path = path

    def known(self, keys: Sequence[str]) -> dict[str, Value]:
        """The answers to those of `keys` that have one."""
        answers: dict[str, Value] = {}
        with self._read() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                part = list(keys[start : start + _AT_ONCE])
                marks = ", ".join("?" * len(part))
                rows = connection.execute(f"{_rows_of(connection)} WHERE key IN ({marks})", part)
                answers |= {
                    key: answer
                    for key, answer, checksum in rows
                    if _is_whole(key, answer, checksum)
                }
        return {key: answers[key] for key in keys if key in answers}

    def all_keys(self) -> list[str]:
        """All keys, sorted."""
        with self._read() as connection:
            return [row[0] for row in connection.execute("SELECT key FROM answers ORDER BY key")]

    def count(self) -> int:
        """How many answers there are."""
        with self._read() as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def store(self, answers: Mapping[str, Value]) -> None:
        """Keep answers; the first answer to a key stays, unless it is damaged."""
        if not answers:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        old = self.known(list(answers))
        rows = [
            (key, text, _checksums(key, text)[0])
            for key, text in sorted(answers.items())
            if key not in old
        ]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)

    def drop(self, keys: Iterable[str]) -> int:
        """Forget the answers to `keys` and give their room back; returns how many there were."""
        rows = [(key,) for key in sorted(set(keys))]
        if not rows or not self.path.exists():
            return 0
        with self._open() as connection:
            with connection:
                dropped = connection.executemany("DELETE FROM answers WHERE key = ?", rows).rowcount
            connection.execute("VACUUM")
        return dropped

    def verify(self) -> list[Damage]:
        """The file, if it cannot be read whole or an answer differs from the stored one, with the
        reason.
        """
        if not self.path.exists():
            return []
        try:
            with self._read() as connection:
                lines = [row[0] for row in connection.execute("PRAGMA integrity_check")]
                if lines == ["ok"] and (
                    bad := sum(
                        not _is_whole(*row) for row in connection.execute(_rows_of(connection))
                    )
                ):
                    lines = [f"{bad:,} entries are not what was stored"]
        except AnswerCacheError as error:
            lines = [str(error.__cause__)]
        return [] if lines == ["ok"] else [Damage(self.path, lines[0])]

    def salvage(self) -> int:
        """Replace the file by one with the answers that can be read and are as they were stored;
        returns how many.
        """
        aside = self.path.with_suffix(".salvaged")
        aside.unlink(missing_ok=True)
        new = SQLiteAnswerCache(aside)
        with closing(sqlite3.connect(self.path)) as connection:
            rows = (row for row in _readable_rows(connection) if _is_whole(*row))
            while part := {key: answer for key, answer, _ in islice(rows, _AT_ONCE)}:
                new.store(part)
        count = new.count()
        if count:
            put(aside, self.path)
        for file in (self.path, self.path.with_name(f"{self.path.name}-journal"))[bool(count) :]:
            file.unlink(missing_ok=True)
        return count

    def copy(self, place: Path) -> None:
        """Write the answers of this moment to a new file; others may store meanwhile."""
        with self._read() as connection, closing(sqlite3.connect(place)) as new:
            connection.backup(new)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """A connection that changes nothing: the file may be another user's, or on a disk that is
        mounted read-only.

        A copy undoes half-written changes of a killed process; in the file itself the next process
        that writes undoes them. Without a file, or if its table is undone, there is a temporary
        table without rows.
        """
        while self.path.exists():
            with self._connected(self.path, "mode=ro") as connection:
                if not _is_half_written(connection):
                    yield _with_table(connection)
                    return
            with TemporaryDirectory(prefix="weft-") as aside:
                if copied := self._copied(Path(aside)):
                    with self._connected(copied, "mode=rw") as connection:
                        yield _with_table(connection)
                    return
        with closing(sqlite3.connect(":memory:")) as connection:
            yield _with_table(connection)

    def _copied(self, folder: Path) -> Path | None:
        """The copy of the file and of the changes to undo; None if another process undid them
        meanwhile.
        """
        with suppress(FileNotFoundError):
            file = self.path.resolve()  # SQLite writes a journal beside it, not beside a link
            journal = file.with_name(f"{file.name}-journal")
            before = journal.stat()
            copies = [Path(shutil.copy(one, folder)) for one in (journal, file)]
            if (
                samestat(before, after := journal.stat())
                and before.st_mtime_ns == after.st_mtime_ns
            ):
                return copies[1]
        return None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection to a file with its table, made where there is none."""
        with self._connected(self.path, "mode=rwc") as connection:
            connection.execute(_PAGE)
            connection.execute(_TABLE)
            if _CHECKSUM not in _columns(connection):
                connection.execute(f"ALTER TABLE answers ADD COLUMN {_CHECKSUM} TEXT")
            yield connection

    @contextmanager
    def _connected(self, path: Path, mode: str) -> Iterator[sqlite3.Connection]:
        """A connection, closed on leaving; AnswerCacheError for faults of SQLite on the file."""
        address = f"{path.absolute().as_uri()}?{mode}"
        try:
            with closing(sqlite3.connect(address, timeout=_BUSY_SECONDS, uri=True)) as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise AnswerCacheError(
                f"{self.path} cannot be used ({error}); `weft cache verify` says whether it is damaged; with "
                "--discard what can be read of it stays, and the rest is asked for again"
            ) from error


SQLiteAnswerCache = SQLiteCache[str]


def _with_table(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, with a temporary table if the file lacks one: nothing was stored, or the
    first change was undone.
    """
    if not _columns(connection):
        connection.execute(_TABLE.replace("TABLE", "TEMPORARY TABLE", 1))
    return connection


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [row[1] for row in connection.execute("PRAGMA table_info(answers)")]


def _rows_of(connection: sqlite3.Connection) -> str:
    """The statement of all rows; those of a file of an earlier version have no checksum."""
    checksum = _CHECKSUM if _CHECKSUM in _columns(connection) else "NULL"
    return f"SELECT key, answer, {checksum} FROM answers"


def _readable_rows(connection: sqlite3.Connection) -> Iterator[tuple[str, str, bytes | None]]:
    """The rows of a damaged file; pages that cannot be read are skipped, and at most as many rows
    behind them.
    """
    last, skipped = 0, 1
    while skipped < _MOST_SKIPPED:
        try:
            for number, *row in connection.execute(_ROWS_FROM, [last + skipped]):
                last, skipped = number, 1
                yield tuple(row)
            return
        except sqlite3.DatabaseError:
            skipped *= 2


def _checksums(key: str, answer: str | bytes) -> tuple[bytes, str]:
    """The checksum of an answer, and that of the same by an earlier version."""
    whole = parts_hash((key, answer))
    return bytes.fromhex(whole[:16]), whole


def _is_whole(key: str, answer: str | bytes, checksum: bytes | str | None) -> bool:
    """True if an answer is as it was stored, or of an earlier version, which did not say."""
    return isinstance(answer, str | bytes) and (
        checksum is None or checksum in _checksums(key, answer)
    )


def _is_half_written(connection: sqlite3.Connection) -> bool:
    """True if a process was killed while it wrote, and its changes must be undone before anything
    is read.
    """
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            return True
        raise
    return False
