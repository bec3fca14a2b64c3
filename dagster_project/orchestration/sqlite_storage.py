"""Dagster's SQLite storages with one database engine kept per file, in place of one per event or question.

Dagster makes a new SQLAlchemy engine for every event it stores, which compiles every statement
anew: 16 ms an event, most of the time of a run over many partitions. For every file it opens it reads all its
migrations, and it asks a file for its tables again before every question. The files and their layout are
Dagster's own, so that every Dagster tool reads them.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from dagster._config import UserConfigSchema
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

_KEPT_ENGINES = 4


class KeptEngineEventLogStorage(SqliteEventLogStorage):
    """`SqliteEventLogStorage` that keeps the engines of the files it used last."""

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """No configuration: the files lie where Dagster keeps them below `DAGSTER_HOME`."""
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> KeptEngineEventLogStorage:
        """The storage in `$DAGSTER_HOME/history/runs`."""
        return cls(_below_home("history", "runs"), inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock, self._engine(shard).connect() as connection, connection.begin():
            yield connection

    def _engine(self, shard: str) -> Engine:
        """The engine of a file, with one connection that stays open; the longest unused is closed."""
        engines: OrderedDict[str, Engine] = self.__dict__.setdefault("_engines", OrderedDict())
        if shard not in engines:
            place = Path(self.path_for_shard(shard))
            if not place.exists():
                self._place_empty(place)
            engines[shard] = _kept_engine(self.conn_string_for_shard(shard))
            if _revision(place) is None:
                self._initdb(engines[shard])
            self._initialized_dbs.add(shard)
            if len(engines) > _KEPT_ENGINES:
                engines.popitem(last=False)[1].dispose()
        engines.move_to_end(shard)
        return engines[shard]

    def _place_empty(self, place: Path) -> None:
        """Make the file of a run with the tables of the index, unless another process just made it."""
        index = Path(self.path_for_shard(INDEX_SHARD_NAME))
        revision = _revision(index)
        if revision is None:
            return
        with closing(sqlite3.connect(index)) as opened:
            declared = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            statements = [sql for (sql,) in opened.execute(declared)]
        temporary = place.with_name(f".{place.stem}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as made:
                # What is in a write-ahead log when a file is closed on a full disk would be left behind.
                for statement in ("BEGIN", *statements):
                    made.execute(statement)
                made.execute("INSERT INTO alembic_version VALUES (?)", [revision])
                made.execute("COMMIT")
                made.execute("PRAGMA journal_mode = WAL")
            with suppress(FileExistsError):
                os.link(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)

    def has_table(self, table_name: str) -> bool:
        """True if the index has a table; tables come with migrations and do not go."""
        known: set[str] = self.__dict__.setdefault("_known_tables", set())
        if table_name not in known and super().has_table(table_name):
            known.add(table_name)
        return table_name in known

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        known: set[str] = self.__dict__.setdefault("_known_columns", set())
        if column_name not in known and super()._has_asset_key_col_on_connection(conn, column_name):
            known.add(column_name)
        return column_name in known

    def dispose(self) -> None:
        """Close the kept connections, which folds SQLite's write-ahead logs into their files."""
        for engine in self.__dict__.pop("_engines", {}).values():
            engine.dispose()
        super().dispose()


class _KeptEngine:
    """What the storages with one file have in common: its engine, made at the first question."""

    _conn_string: str
    FOLDER: ClassVar[str]
    FILE: ClassVar[str]

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """No configuration: the files lie where Dagster keeps them below `DAGSTER_HOME`."""
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """The storage in its folder of `$DAGSTER_HOME`."""
        return cls.from_local(_below_home(cls.FOLDER), inst_data)

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        """The storage in a folder; Dagster's migrations are read only where it is new."""
        if _revision(Path(base_dir) / f"{cls.FILE}.db") is None:
            return super().from_local(base_dir, inst_data)  # type: ignore[misc]
        return cls(create_db_conn_string(base_dir, cls.FILE), inst_data)  # type: ignore[call-arg]

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A transaction on the kept engine."""
        if "_engine" not in self.__dict__:
            self.__dict__["_engine"] = _kept_engine(self._conn_string)
        with self.__dict__["_engine"].connect() as connection, connection.begin():
            yield connection

    def dispose(self) -> None:
        """Close the kept connections."""
        if engine := self.__dict__.pop("_engine", None):
            engine.dispose()


class KeptEngineRunStorage(_KeptEngine, SqliteRunStorage):
    """`SqliteRunStorage` that keeps the engine of its file."""

    FOLDER, FILE = "history", "runs"


class KeptEngineScheduleStorage(_KeptEngine, SqliteScheduleStorage):
    """`SqliteScheduleStorage` that keeps the engine of its file."""

    FOLDER, FILE = "schedules", "schedules"


def _below_home(*folders: str) -> str:
    return str(Path(os.environ["DAGSTER_HOME"]).joinpath(*folders))


def _revision(place: Path) -> str | None:
    """The migration that a file of Dagster's is at; None if there is no such file yet."""
    if not place.exists():
        return None
    try:
        with closing(sqlite3.connect(place, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as opened:
            row = opened.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return None
    return row and str(row[0])


def _kept_engine(address: str) -> Engine:
    """An engine with one connection that stays open.

    A commit reaches the operating system but not yet the disk: after a power cut the last events may be missing,
    and the file is whole (https://www.sqlite.org/pragma.html#pragma_synchronous).
    """
    engine = create_engine(
        address,
        poolclass=QueuePool,
        pool_size=1,
        connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", lambda made, _: made.execute("PRAGMA synchronous = NORMAL"))
    return engine
