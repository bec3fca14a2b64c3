"""SQL on the current published version."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import list_type
from duckdb.sqltypes import FLOAT, VARCHAR

from assets.protocols.models import Embedder
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.lookup import storable_values
from dagster_project.index.search.statements.closed_off import open_closed_off, type_of
from dagster_project.models.embedders import serving
from transforms.errors import QueryError
from transforms.text.storable import storable

_SEMANTIC = """
CREATE TEMP MACRO search_semantic(words, k := 10) AS TABLE
WITH asked AS MATERIALIZED (SELECT embedded(words)::FLOAT[{dimensions}] AS vector),
near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, asked.vector) AS cosine FROM {file}.embeddings e, asked
  ORDER BY cosine DESC, e.chunk_no LIMIT k
)
SELECT row_number() OVER (ORDER BY n.cosine DESC, n.chunk_no) AS rank, n.cosine, c.chunk_id, c.doc_id, c.source_kind,
  coalesce(w.title, c.title) AS title, c.text_display
FROM near n JOIN chunks c USING (chunk_no) LEFT JOIN conversation_windows w USING (doc_id) ORDER BY rank
"""


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
        if embedder and "search_semantic" in statement.lower():
            _add_semantic(connection, embedder(), file.stem)
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
def opened_for_sql(file: Path, embedder: Embedder) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for many statements on a published file, with all that one may call."""
    with open_closed_off(
        file,
        _ALL_NAMES,
        file.stem,
        lambda connection: _add_semantic(connection, embedder, file.stem),
    ) as connection:
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
    """Add the macro `search_semantic` to a connection with the database `name`; ModelMismatchError
    as `serving` says.
    """
    manifest = dict(connection.execute("SELECT key, value FROM manifest").fetchall())
    embedder = serving(embedder, manifest, name)
    connection.create_function(
        "embedded",
        lambda words: embedder.embed_queries([words])[0].tolist(),
        [VARCHAR],
        list_type(FLOAT),
    )
    connection.execute(_SEMANTIC.format(dimensions=embedder.dimensions, file=f'"{name}"'))
