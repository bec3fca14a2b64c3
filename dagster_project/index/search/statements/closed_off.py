"""Connections on which somebody's SQL is asked: to a published file, and to no other file, with
options that stay.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from dagster_project.index.publish import vector_index
from dagster_project.index.publish.versions import attach
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.lake.lake_texts import show, show_stored
from transforms.errors import QueryError
from transforms.text.storable import storable


@contextmanager
def open_closed_off(
    file: Path, statement: str, name: str, prepare: Callable[[duckdb.DuckDBPyConnection], None]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a published file, as the database `name`, with the access that a statement
    needs and no other.

    `prepare` gets it before it is closed off.
    """
    # An instance of its own: connections to one file share theirs, and locks here would be for all.
    with duckdb.connect() as connection:
        with faults_translated(file):
            attach(connection, file, name)
            texts = show(connection, file)
            if "stored_" in statement:
                show_stored(connection, texts)
            if "array_cosine_distance" in statement.lower():
                # To load the extension takes as long as many a statement.
                vector_index.use(connection)
            prepare(connection)
            close_off(connection)
        yield connection


def close_off(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection read no other file, and change none of its options."""
    for option in (
        "TimeZone = 'UTC'",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {option}")


def type_of(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.StatementType:
    """The kind of a statement; QueryError for an empty text, or several statements."""
    statements = connection.extract_statements(storable(statement))
    if not statements:
        raise QueryError("the SQL statement is empty")
    if len(statements) > 1:
        raise QueryError(
            f"these are {len(statements)} SQL statements: give one, and call again for the next"
        )
    return statements[0].type
