"""SQL on the current published version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from dagster_project.resources.publish import vector_index
from dagster_project.resources.publish.versions import attach, current_version
from dagster_project.resources.search.index_faults import faults_translated
from dagster_project.resources.search.lookup import storable_values
from transforms.errors import QueryError
from transforms.retrieval.query_language import storable


def query_current(folder: Path, statement: str, values: Mapping[str, object] | None = None) -> pa.Table:
    """The rows of one SQL statement on the current version, opened read-only with no access beside it.

    `values` are those of the statement's named parameters. IndexUnavailableError if nothing is published.
    """
    file = current_version(folder)
    if not statement.strip(" ;\n\t"):
        raise QueryError("the SQL statement is empty")
    # An instance of its own: connections to one file share theirs, and what is locked here would be for all.
    with duckdb.connect() as connection:
        with faults_translated(file):
            attach(connection, file, file.stem)
            if (
                "array_cosine_distance" in statement.lower()
            ):  # to load the extension takes as long as many a statement
                vector_index.use(connection)
            for option in ("TimeZone = 'UTC'", "enable_external_access = false", "lock_configuration = true"):
                connection.execute(f"SET {option}")
        with faults_translated(file, own=False):
            count = len(connection.extract_statements(storable(statement)))
            if count > 1:
                raise QueryError(f"these are {count} SQL statements: give one, and call again for the next")
            return connection.execute(storable(statement), storable_values(values or {})).to_arrow_table()
