"""The contexts of chats as tables that SQL on an index joins.

Those of the whole index are in the lake. Under a lens its own index is asked with the windows that it
shows, so that nothing hidden has a part in a rank, a score or a number of candidates.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from assets.conversations import contexts
from dagster_project.config.settings import Settings
from dagster_project.context.context_index import IndexForContext, PublishedVersions
from dagster_project.index.publish.lake_views import JOINED, lake_file, see
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.context_sql import (
    CONTEXT_TABLES,
    copy_context,
    is_about_context,
)
from dagster_project.lake.lake import ParquetLake
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.system.durable import put, remove
from dagster_project.system.locks import alone
from dagster_project.system.sql_files import SqlFile
from transforms.conversations.query_chunks import conversation_query_chunks
from transforms.errors import QueryError
from transforms.hashing import text_hash
from transforms.schemas.registry import lake_tables

_FORMAT = "1"
_SQL = SqlFile(__file__, "context_tables.sql")


class _ShownIndex(IndexForContext):
    """An index under a lens, whose contexts have its own version: that of the whole is of hidden
    texts, too.
    """

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**super().facts, "index_version": self.index.manifest["version"]}


def contexts_of(settings: Settings, index: SearchIndex, statement: str) -> Path | None:
    """The file with the contexts of the chats of an index, if a statement may ask for them, else
    None.

    It has views of the lake for the whole index; a lens has a file of its own, which the first
    statement makes.
    QueryError if that would cost money.
    """
    if not is_about_context(statement):
        return None
    if index.published == index.path:
        return lake_file(_lake(settings), settings.root / "index")
    if index.embedder.is_paid:
        raise QueryError(
            "the contexts of chats under a lens would be asked of a model that costs money: ask for the "
            "chats by `conversation_windows`"
        )
    return _under_lens(settings, index)


def add_contexts(
    settings: Settings, index: SearchIndex, connection: duckdb.DuckDBPyConnection
) -> None:
    """Add all of CONTEXT_TABLES that there are to a connection, as temporary tables (`contexts_of`)."""
    see(connection, _lake(settings))
    names = " ".join(CONTEXT_TABLES)
    if file := contexts_of(settings, index, names):
        copy_context(file, names, connection)


def _lake(settings: Settings) -> ParquetLake:
    tables = lake_tables(settings.embedding.dimensions)
    return ParquetLake(settings.lake_uri, tables, settings.root / "cache" / "lake")


def _under_lens(settings: Settings, index: SearchIndex) -> Path:
    """The file beside that of a lens; those of older versions and settings go."""
    chosen = (settings.conversations, settings.context)
    digest = text_hash("\0".join([_FORMAT, *(part.model_dump_json() for part in chosen)]))[:12]
    place = index.path.with_name(f"contexts-{index.path.stem}-{digest}.duckdb")
    with alone(place.parent / ".contexts.lock"):
        if place.exists():
            return place
        aside = place.with_name(f".{place.stem}-{os.getpid()}.duckdb")
        try:
            _write(settings, index, aside)
            put(aside, place)
        finally:
            remove([aside])
        remove(file for file in place.parent.glob("contexts-*.duckdb") if file != place)
    return place


def _write(settings: Settings, index: SearchIndex, file: Path) -> None:
    """Write the tables, with the windows that they are about, and the view that joins them."""
    windows = index.connection.execute(_SQL("windows")).to_arrow_table()
    count = PackagedTokenCounter().counts
    cuts = conversation_query_chunks(windows, settings.conversations, count)
    shown = _ShownIndex(index, PublishedVersions(settings).cache)
    tables = {
        "conversation_markdown": windows,
        "conversation_query_chunks": cuts,
        **contexts(windows, cuts, settings.context, shown, count),
    }
    with duckdb.connect(str(file)) as connection:
        for name, table in tables.items():
            connection.register("new_rows", table)
            is_declared = "partition" in table.column_names
            connection.execute(_SQL("table" if is_declared else "table_of_no_partition", name=name))
            connection.unregister("new_rows")
        for name in JOINED:
            connection.execute(_SQL("view", name=name, rows=JOINED(name)))
