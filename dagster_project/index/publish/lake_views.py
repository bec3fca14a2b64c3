"""DuckDB views over the files of the lake: temporary ones, and those of a small file, for SQL
beyond the published one.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
import fsspec

from assets.partitions import IN_PARTS
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import is_local
from dagster_project.lake.text_references import referring
from dagster_project.system.disk_space import may_be_made
from dagster_project.system.durable import put
from dagster_project.system.sql_files import SqlFile, identifiers, literal, nulls
from transforms.schemas.registry import REGISTRY, partitions_of


class LakeViews:
    """Creates views over stored files; `statements` recreate them on another connection, as each
    has its own views.
    """

    def __init__(self, lake: ParquetLake, *, texts_stay: bool = False):
        """If `texts_stay`, views of partitions show references in place of texts
        (`text_references`).
        """
        self.lake, self.texts_stay = lake, texts_stay
        self.statements: list[str] = []

    def of_partitions(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: str,
        table: str,
        partitions: Sequence[str | None],
    ) -> None:
        """Create a view over the stored files of a table; those of partitions get the column
        `partition`.
        """
        declared = self.lake.tables[table]
        adds = "partition" not in declared.names and partitions_of(table) is not None
        selects = [
            f"SELECT {self._columns(table, p)}{f', {literal(p)} AS partition' if adds else ''} "
            f"FROM read_parquet({literal(self.lake.verified(table, p))})"
            for p in partitions
        ]
        no_rows = (
            f"SELECT {nulls(declared)}{', NULL::VARCHAR AS partition' if adds else ''} LIMIT 0"
        )
        self._create(connection, view, " UNION ALL ".join(selects) or no_rows)

    def _columns(self, table: str, partition: str | None) -> str:
        """The columns of a table as they are selected from the file of a partition."""
        published = REGISTRY[table].published if table in REGISTRY else ""
        names = self.lake.tables[table].names
        return ", ".join(
            referring(
                published or "" if self.texts_stay and partition else "",
                table,
                partition or "",
                names,
            )
        )

    def of_parts(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: str,
        table: str,
        parts: Sequence[str],
        *,
        verifies: bool = True,
    ) -> None:
        """Create a view over some parts of a table, with the column `part`; their content is
        verified.

        It is a single scan: of several scans, each would keep its read buffers until the last one
        ends.
        """
        declared = self.lake.tables[table]
        names = identifiers(declared.names)
        rows = f"SELECT {nulls(declared)}, NULL::VARCHAR AS part LIMIT 0"
        if parts:
            file = self.lake.verified if verifies else self.lake.local
            paths = _list(str(file(table, part)) for part in parts)
            part = f"({_list(parts)})[list_position({paths}, _file)]"
            rows = f"SELECT {names}, {part} AS part FROM read_parquet({paths}, filename = '_file')"
        self._create(connection, view, rows)

    def _create(self, connection: duckdb.DuckDBPyConnection, view: str, rows: str) -> None:
        self.statements.append(f"CREATE TEMP VIEW {view} AS {rows}")
        connection.execute(self.statements[-1])


def _list(values: Iterable[str]) -> str:
    """A list of strings in SQL."""
    return f"[{', '.join(map(literal, values))}]"


_NAME = "lake.duckdb"
JOINED = SqlFile(__file__, "lake_views.sql")
"""The views that join tables of the lake."""
_OF_RETRIEVALS = {
    "conversation_markdown",
    "conversation_query_chunks",
    "conversation_candidates",
    "conversation_documents",
    "conversation_context",
}
"""The tables that the joined views read: there is none in a lake without chats."""
_PARTITION = r"regexp_extract(_file, '([^/]+/[^/]+)\.parquet$', 1)"
_READ_AHEAD = 1 << 20


def lake_file(lake: ParquetLake, folder: Path) -> Path:
    """The file in `folder`, with a view for each stored table of the lake, by its name there; it
    holds no rows.

    Views of partitions have the column `partition`. A view reads the files that are there when it
    is asked. The file is written again where a table came or went, unless it may not be written.
    LakeDamageError if a part is missing.
    """
    file = folder / _NAME
    with lake.one_look():
        views = _views(lake)
    if _has(file, views) or (file.exists() and not may_be_made(file)):
        return file
    folder.mkdir(parents=True, exist_ok=True)
    building = folder / f".{_NAME}-{os.getpid()}"
    building.unlink(missing_ok=True)
    with duckdb.connect(str(building)) as connection:
        see(connection, lake)
        for name, rows in views.items():
            connection.execute(f'CREATE VIEW "{name}" AS {rows}')
            connection.execute(f'COMMENT ON VIEW "{name}" IS {literal(rows)}')
    put(building, file)
    return file


def _has(file: Path, views: Mapping[str, str]) -> bool:
    """True if a file has these views and no others; the comment of each has its inputs."""
    if not file.exists():
        return False
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            rows = connection.execute(
                "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
            ).fetchall()
    except duckdb.Error:
        return False
    return dict(rows) == views


def see(connection: duckdb.DuckDBPyConnection, lake: ParquetLake) -> None:
    """Let a connection read the files of a lake on an object store, each list and file asked for
    once.
    """
    if not is_local(lake.base):
        own = {
            "use_listings_cache": True,
            "skip_instance_cache": True,
            "default_block_size": _READ_AHEAD,
        }
        options = {**lake.base.storage_options, **own}
        connection.register_filesystem(fsspec.filesystem(lake.base.protocol, **options))


def _views(lake: ParquetLake) -> dict[str, str]:
    """The rows of each stored table as they are selected, and those of the views that join them."""
    views = {}
    for table, declared in lake.tables.items():
        columns = identifiers(declared.names)
        if "partition" not in declared.names and partitions_of(table):
            columns += f", {_PARTITION} AS partition"
        if files := _files(lake, table):
            views[table] = f"SELECT {columns} FROM read_parquet({_list(files)}, filename = '_file')"
    if views.keys() >= _OF_RETRIEVALS:
        views |= {name: JOINED(name) for name in JOINED}
    return views


def _files(lake: ParquetLake, table: str) -> list[str]:
    """The patterns of the files that hold a table, of those that there are."""
    if partitions_of(table) is None and table not in IN_PARTS:
        return [str(lake.path(table))] if lake.is_stored(table) else []
    if table in IN_PARTS and lake.is_stored(table):
        lake.require_parts(table)
    return [f"{lake.base / table}/*/*.parquet"] if lake.partitions(table) else []
