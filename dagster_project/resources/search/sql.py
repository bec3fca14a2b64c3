"""SQL on the current published version, and on the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import list_type
from duckdb.sqltypes import FLOAT, VARCHAR

from assets.protocols.models import Embedder
from dagster_project.resources.lake.lake import ParquetLake
from dagster_project.resources.lake.lake_texts import show, show_stored
from dagster_project.resources.publish import vector_index
from dagster_project.resources.publish.lake_file import lake_file, see
from dagster_project.resources.publish.lake_views import quoted
from dagster_project.resources.publish.versions import attach, current_version
from dagster_project.resources.search.index_faults import faults_translated
from dagster_project.resources.search.lookup import storable_values
from transforms.errors import ModelMismatchError, QueryError
from transforms.retrieval.query_language import storable

_SEMANTIC = """
CREATE TEMP MACRO search_semantic(words, k := 10) AS TABLE
WITH asked AS MATERIALIZED (SELECT embedded(words)::FLOAT[{dimensions}] AS vector),
near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, asked.vector) AS cosine FROM {file}.embeddings e, asked
  ORDER BY cosine DESC, e.chunk_no LIMIT k
)
SELECT row_number() OVER (ORDER BY n.cosine DESC, n.chunk_no) AS rank, n.cosine, c.chunk_id, c.doc_id, c.source_kind,
  c.title, c.text_display
FROM near n JOIN chunks c USING (chunk_no) ORDER BY rank
"""

_MOST_MEMORY = "1GB"
"""What a statement of an assistant may take, so that no cell that it puts together takes all of the machine's memory."""
_AS_THEY_ARE = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
}  # fmt: skip
_SHORT = "left({name}::VARCHAR, {most})"


def query_current(
    folder: Path,
    statement: str,
    values: Mapping[str, object] | None = None,
    embedder: Callable[[], Embedder] | None = None,
) -> pa.Table:
    """The rows of one SQL statement on the current version, opened read-only with no access beside it.

    `values` are those of the statement's named parameters. With an `embedder` the statement may call
    `search_semantic(words, k)`. IndexUnavailableError if nothing is published.
    """
    return query_file(current_version(folder), statement, values, embedder)


def query_file(
    file: Path,
    statement: str,
    values: Mapping[str, object] | None = None,
    embedder: Callable[[], Embedder] | None = None,
) -> pa.Table:
    """As `query_current`, on one published file."""
    with _opened(file, statement, embedder) as connection, faults_translated(file, own=False):
        _kind_of(connection, statement)
        return connection.execute(storable(statement), storable_values(values or {})).to_arrow_table()


def bounded_rows(
    file: Path,
    statement: str,
    most: int,
    most_characters: int,
    on_open: Callable[[duckdb.DuckDBPyConnection], None] = lambda connection: None,
) -> pa.Table:
    """`most` rows of one SELECT on a published file, which takes a bounded memory; QueryError for another statement.

    All but numbers and truth values are text, of `most_characters` + 1 characters at most. `on_open` gets the connection
    before it is asked.
    """
    with _opened(file, statement, None, _MOST_MEMORY) as connection, faults_translated(file, own=False):
        if _kind_of(connection, statement) != duckdb.StatementType.SELECT:
            raise QueryError("only SELECT, FROM, SHOW and DESCRIBE can be asked here")
        on_open(connection)
        inner = storable(statement).rstrip().rstrip(";")
        asked = connection.sql(inner)
        names = [f"c{number}" for number in range(len(asked.columns))]
        cells = [
            name if str(kind) in _AS_THEY_ARE else _SHORT.format(name=name, most=most_characters + 1)
            for name, kind in zip(names, asked.types, strict=True)
        ]
        cut = f"SELECT {', '.join(cells)} FROM ({inner}\n) AS asked({', '.join(names)}) LIMIT {most}"
        return connection.execute(cut).to_arrow_table().rename_columns(asked.columns)


@contextmanager
def _opened(
    file: Path, statement: str, embedder: Callable[[], Embedder] | None, memory: str | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a published file with what a statement needs, and no access beside it."""
    # An instance of its own: connections to one file share theirs, and what is locked here would be for all.
    with duckdb.connect() as connection:
        with faults_translated(file):
            attach(connection, file, file.stem)
            texts = show(connection, file)
            if "stored_" in statement:
                show_stored(connection, texts)
            if (
                "array_cosine_distance" in statement.lower()
            ):  # to load the extension takes as long as many a statement
                vector_index.use(connection)
            if embedder and "search_semantic" in statement.lower():
                _add_semantic(connection, embedder(), file.stem)
            if memory:
                connection.execute(f"SET memory_limit = '{memory}'")
            _close_off(connection)
        yield connection


def query_lake(lake: ParquetLake, folder: Path, statement: str) -> pa.Table:
    """The rows of one SQL statement on the tables of the lake as it is now, read through the file of views in `folder`.

    QueryError if the statement is wrong, or if a build replaced a file while it was read.
    """
    file = lake_file(lake, folder)
    with duckdb.connect() as connection:
        see(connection, lake)
        attach(connection, file, file.stem)
        connection.execute(f"SET allowed_directories = ['{quoted(lake.base)}']")
        _close_off(connection)
        try:
            # COPY would write beside the files that it may read.
            if _kind_of(connection, statement) != duckdb.StatementType.SELECT:
                raise QueryError("only SELECT, FROM, SHOW and DESCRIBE can be asked of the lake")
            return connection.execute(storable(statement)).to_arrow_table()
        except (duckdb.Error, OSError) as error:
            raise QueryError(str(error)) from error


def _close_off(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection read no other file, and change none of its options."""
    for option in ("TimeZone = 'UTC'", "enable_external_access = false", "lock_configuration = true"):
        connection.execute(f"SET {option}")


def _kind_of(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.StatementType:
    """What kind of statement it is; QueryError if there is none, or several."""
    statements = connection.extract_statements(storable(statement))
    if not statements:
        raise QueryError("the SQL statement is empty")
    if len(statements) > 1:
        raise QueryError(f"these are {len(statements)} SQL statements: give one, and call again for the next")
    return statements[0].type


def _add_semantic(connection: duckdb.DuckDBPyConnection, embedder: Embedder, name: str) -> None:
    """Add the macro `search_semantic` to a connection whose database `name` has vectors of this model.

    ModelMismatchError if they are of another.
    """
    rows = connection.execute("SELECT value FROM manifest WHERE key = 'model'").fetchall()
    if rows != [(embedder.model,)]:
        raise ModelMismatchError(
            f"{name} holds vectors of {rows[0][0] if rows else 'no model'}, the settings name {embedder.model}: run "
            "`weft build` with these settings, or mend `embedding` in them"
        )

    def embedded(words: str) -> list[float]:
        (vector,) = embedder.embed_queries([words])
        return [float(value) for value in vector]

    connection.create_function("embedded", embedded, [VARCHAR], list_type(FLOAT))
    connection.execute(_SEMANTIC.format(dimensions=embedder.dimensions, file=f'"{name}"'))
