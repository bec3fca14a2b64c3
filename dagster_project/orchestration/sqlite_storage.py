"""Dagster's SQLite event log with the database engines of the files used last kept open, and events
stored in batches.

Dagster makes a SQLAlchemy engine for every event it stores, which compiles every statement again:
most of the time of a run over many partitions. No setting or public name offers another way; the
files and their layout are Dagster's own, so that every Dagster tool reads them.
"""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dagster import EventLogEntry
from sqlalchemy import Connection, Engine, bindparam, create_engine, event
from sqlalchemy.pool import QueuePool

from dagster_project.system.dagster_internals import (
    ASSET_CHECK_EVENTS,
    ASSET_EVENTS,
    EVENT_TYPE_TO_PIPELINE_RUN_STATUS,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    AssetKeyTable,
    ConfigurableClassData,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    UserConfigSchema,
)

_KEPT_ENGINES = 4
_OF_NO_RUN = ("", "index")
"""Files that another process may begin at the same moment."""
_BATCH = "DAGSTER_EVENT_BATCH_SIZE", "500"
"""The variable without which Dagster stores one by one the plans of a run, and its materializations
of partitions.
"""
_INSERT = SqlEventLogStorageTable.insert()
_UPDATE_ASSET = AssetKeyTable.update().where(AssetKeyTable.c.asset_key == bindparam("of_asset"))
_MIRRORED = ASSET_EVENTS | ASSET_CHECK_EVENTS | EVENT_TYPE_TO_PIPELINE_RUN_STATUS.keys()
"""Events that are in the index of all runs too."""
_empty: list[bytes] = []
"""The file of a run without events, as Dagster made the first of this process with some fifty
statements.
"""


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
        os.environ.setdefault(*_BATCH)
        return cls(str(Path(os.environ["DAGSTER_HOME"]) / "history" / "runs"), inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock, self._engine(shard).connect() as connection, connection.begin():
            yield connection

    def _engine(self, shard: str) -> Engine:
        """The engine of a file, with one connection that stays open; the longest unused is closed.

        A commit reaches the operating system but not yet the disk: after a power cut the last
        events may be missing, and the file is whole
        (https://www.sqlite.org/pragma.html#pragma_synchronous).
        """
        engines: OrderedDict[str, Engine] = self.__dict__.setdefault("_engines", OrderedDict())
        if shard not in engines:
            engine = engines[shard] = create_engine(
                self.conn_string_for_shard(shard),
                poolclass=QueuePool,
                pool_size=1,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
            )
            event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA synchronous = NORMAL"))
            if shard not in self._initialized_dbs:
                self._begin(shard, engine)
                self._initialized_dbs.add(shard)
            if len(engines) > _KEPT_ENGINES:
                engines.popitem(last=False)[1].dispose()
        engines.move_to_end(shard)
        return engines[shard]

    def _begin(self, shard: str, engine: Engine) -> None:
        """Make the tables of a file, unless they are there; a new file of a run is a copy of the
        process's first.
        """
        place = Path(self.path_for_shard(shard))
        new = shard not in _OF_NO_RUN and not place.exists()
        if new and _empty:
            draft = place.with_suffix(".begun")
            draft.write_bytes(_empty[0])
            draft.replace(place)
            return
        if not new and _has_tables(place):
            return
        self._initdb(engine)
        if new:
            with closing(sqlite3.connect(place)) as db:
                _empty[:] = [db.serialize()]

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event."""
        self.store_event_batch([event])

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of one run as Dagster's `store_event` stores each: in one transaction a
        file.
        """
        rows = [self._event_to_row(event) for event in events]
        with self.run_connection(events[0].run_id) as connection:
            connection.execute(_INSERT, rows)
        kinds = [event.dagster_event_type if event.is_dagster_event else None for event in events]
        if _MIRRORED.isdisjoint(kinds):
            return
        idents = {}
        with self.index_connection() as connection:
            for number, (event, row, kind) in enumerate(zip(events, rows, kinds, strict=True)):
                if kind not in _MIRRORED:
                    continue
                (ident,) = connection.execute(_INSERT, row).inserted_primary_key or (0,)
                idents[number] = ident
                if kind in ASSET_EVENTS:
                    self._store_asset_event_tags(connection, [event], [ident])
                    self._store_asset_event(connection, event, ident)
        for number, ident in idents.items():
            if kinds[number] in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(events[number], ident)

    def _store_asset_event(self, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        """Note the last event of an asset, which is seldom new."""
        has_columns = self._has_asset_key_index_cols_on_connection(conn)
        values = self._get_asset_entry_values(event, event_id, has_columns)
        if not values or not event.dagster_event or not event.dagster_event.asset_key:
            return
        key = event.dagster_event.asset_key.to_string()
        if not conn.execute(_UPDATE_ASSET, {"of_asset": key, **values}).rowcount:
            conn.execute(AssetKeyTable.insert(), {"asset_key": key, **values})

    def has_table(self, table_name: str) -> bool:
        """True if the index has a table; each event asks for some."""
        return self._stays(super().has_table, table_name)

    def has_secondary_index(self, name: str) -> bool:
        """True if the index was migrated so far."""
        return self._stays(super().has_secondary_index, name)

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        return self._stays(partial(super()._has_asset_key_col_on_connection, conn), column_name)

    def _stays(self, look: Callable[[str], bool], name: str) -> bool:
        """The answer of `look` for a name. A yes is remembered, since migrations only add."""
        names: set[str] = self.__dict__.setdefault("_known", set())
        if name not in names and look(name):
            names.add(name)
        return name in names

    def dispose(self) -> None:
        """Close the kept connections, which folds SQLite's write-ahead logs into their files."""
        for engine in self.__dict__.pop("_engines", {}).values():
            engine.dispose()
        super().dispose()


def _has_tables(place: Path) -> bool:
    """True if a file has all its tables; Dagster writes the number of the layout last, and reads 89
    scripts to see that.
    """
    with closing(sqlite3.connect(place, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as db:
        tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchall()
        return bool(tables and db.execute("SELECT 1 FROM alembic_version").fetchall())
