"""SQL on the current published version."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import list_type
from duckdb.func import FunctionNullHandling
from duckdb.sqltypes import FLOAT, VARCHAR

from assets.protocols.models import Embedder
from dagster_project.index.publish import vector_index
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.lookup import storable_values
from dagster_project.index.search.statements.closed_off import open_closed_off, type_of
from dagster_project.models.embedders import serving
from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError
from transforms.text.storable import storable

_SQL = SqlFile(__file__, "sql.sql")
_REMEMBERED = 8
"""Vectors of words and ids of a statement: without an index a function is called for each row."""


def query_current(
    folder: Path,
    statement: str,
    values: Mapping[str, object] | None = None,
    embedder: Callable[[], Embedder] | None = None,
    further: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None,
) -> pa.Table:
    """The rows of one SQL statement on the current version, opened read-only with no access beside
    it.

    `values` are those of the statement's named parameters. With an `embedder` the statement may
    call `search_semantic(words, k)`; `further` adds temporary tables. IndexUnavailableError if
    nothing is published.
    """
    file = current_version(folder)

    def prepare(connection: duckdb.DuckDBPyConnection) -> None:
        words = statement.lower()
        if embedder and "search_semantic" in words:
            _add_semantic(connection, embedder(), file.stem)
        if "similar" in words:
            _add_similar(connection, file.stem)
        further(connection)

    with (
        open_closed_off(file, statement, file.stem, prepare) as connection,
        faults_translated(file, own=False),
    ):
        type_of(connection, statement)
        return connection.execute(
            storable(statement), storable_values(values or {})
        ).to_arrow_table()


@contextmanager
def opened_for_sql(
    file: Path,
    embedder: Embedder,
    further: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for many statements on a published file, with all that one may call; `further`
    adds temporary tables.
    """

    def prepare(connection: duckdb.DuckDBPyConnection) -> None:
        _add_semantic(connection, embedder, file.stem)
        _add_similar(connection, file.stem)
        further(connection)

    with open_closed_off(file, _ALL_NAMES, file.stem, prepare) as connection:
        yield connection


def relation_of(
    connection: duckdb.DuckDBPyConnection, file: Path, statement: str, values: Mapping[str, object]
) -> duckdb.DuckDBPyRelation:
    """The rows of one SELECT on a published file, which are read when the relation is; QueryError
    for another statement.
    """
    with faults_translated(file, own=False):
        if type_of(connection, statement) != duckdb.StatementType.SELECT:
            raise QueryError("the index is read-only: only SELECT, FROM, SHOW and DESCRIBE answer")
        return connection.sql(storable(statement), params=storable_values(values))


_ALL_NAMES = "stored_ array_cosine_distance"
"""The names by which `open_closed_off` knows what a statement needs."""


def _add_semantic(connection: duckdb.DuckDBPyConnection, embedder: Embedder, name: str) -> None:
    """Add the macro `search_semantic` to a connection with the database `name`, which asks the HNSW
    index if the file has one; ModelMismatchError as `serving` says.
    """
    manifest = _manifest(connection)
    embedder = serving(embedder, manifest, name)

    @lru_cache(_REMEMBERED)
    def embedded(words: str) -> list[float]:
        vector: list[float] = embedder.embed_queries([words])[0].tolist()
        return vector

    connection.create_function("embedded", embedded, [VARCHAR], list_type(FLOAT))
    way = "search_semantic_by_index" if _uses_index(connection, manifest) else "search_semantic"
    connection.execute(_SQL(way, dimensions=str(embedder.dimensions), file=name))


def _add_similar(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Add the macro `similar` to a connection with the database `name`, if its file has an HNSW
    index; that of the file compares all vectors.
    """
    manifest = _manifest(connection)
    if not _uses_index(connection, manifest):
        return

    @lru_cache(_REMEMBERED)
    def vector_of(given: str | None) -> list[float] | None:
        # A cursor is a connection of its own: that of the statement is busy.
        row = connection.cursor().execute(_SQL("vector", file=name), {"given": given}).fetchone()
        return [*row[0]] if row else None

    connection.create_function(
        "vector_of",
        vector_of,
        [VARCHAR],
        list_type(FLOAT),
        null_handling=FunctionNullHandling.SPECIAL,
    )
    connection.execute(_SQL("similar_by_index", dimensions=manifest["dimensions"], file=name))


def _manifest(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM manifest").fetchall())


def _uses_index(connection: duckdb.DuckDBPyConnection, manifest: Mapping[str, str]) -> bool:
    """True if the file has an HNSW index, which statements on the connection may use from now on."""
    has_index = manifest["vector_search"] == vector_index.HNSW
    if has_index:
        vector_index.use(connection)
    return has_index
