"""A small DuckDB file whose views are the tables of the lake, for SQL on what no published file has or could hold."""

import os
from collections.abc import Mapping
from pathlib import Path

import duckdb
import fsspec

from assets.partitions import IN_PARTS
from dagster_project.index.publish.lake_views import quoted
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import is_local
from dagster_project.system.disk_space import may_be_made
from dagster_project.system.durable import put
from transforms.schemas.registry import partitions_of

_NAME = "lake.duckdb"
_PARTITION = r"regexp_extract(_file, '([^/]+/[^/]+)\.parquet$', 1)"
_READ_AHEAD = 1 << 20


def lake_file(lake: ParquetLake, folder: Path) -> Path:
    """The file in `folder`, with a view for each stored table of the lake, by its name there; it holds no rows.

    Views of partitions have the column `partition`. A view reads the files that are there when it is asked. The file is
    written again where a table came or went, unless it may not be written. LakeDamageError if a part is missing.
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
            connection.execute(f"COMMENT ON VIEW \"{name}\" IS '{quoted(rows)}'")
    put(building, file)
    return file


def _has(file: Path, views: Mapping[str, str]) -> bool:
    """True if a file has these views and no others; the comment of each is what it was made of."""
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
    """Let a connection read the files of a lake on an object store, each list and file asked for once."""
    if not is_local(lake.base):
        own = {"use_listings_cache": True, "skip_instance_cache": True, "default_block_size": _READ_AHEAD}
        options = {**lake.base.storage_options, **own}
        connection.register_filesystem(fsspec.filesystem(lake.base.protocol, **options))


def _views(lake: ParquetLake) -> dict[str, str]:
    """The rows of each stored table as they are selected."""
    views = {}
    for table, declared in lake.tables.items():
        columns = ", ".join(f'"{name}"' for name in declared.names)
        if "partition" not in declared.names and partitions_of(table):
            columns += f", {_PARTITION} AS partition"
        if files := ", ".join(f"'{quoted(place)}'" for place in _files(lake, table)):
            views[table] = f"SELECT {columns} FROM read_parquet([{files}], filename = '_file')"
    return views


def _files(lake: ParquetLake, table: str) -> list[str]:
    """The patterns of the files that hold a table, of those that there are."""
    if partitions_of(table) is None and table not in IN_PARTS:
        return [str(lake.path(table))] if lake.is_stored(table) else []
    if table in IN_PARTS and lake.is_stored(table):
        lake.require_parts(table)
    return [f"{lake.base / table}/*/*.parquet"] if lake.partitions(table) else []
