"""SQL on the lake; a search does without it, whose modules take a fifth of the time in which a
search begins.
"""

from pathlib import Path

import duckdb
import pyarrow as pa

from dagster_project.index.publish.lake_views import lake_file, see
from dagster_project.index.publish.versions import attach
from dagster_project.index.search.statements.closed_off import close_off, type_of
from dagster_project.index.search.statements.context_sql import copy_context
from dagster_project.lake.lake import ParquetLake
from dagster_project.system.sql_files import literal
from transforms.errors import QueryError
from transforms.text.storable import storable


def query_lake(lake: ParquetLake, folder: Path, statement: str) -> pa.Table:
    """The rows of one SQL statement on the tables of the lake as it is now, read through the file
    of views in `folder`.

    QueryError if the statement is wrong, or if a build replaced a file while it was read.
    """
    file = lake_file(lake, folder)
    with duckdb.connect() as connection:
        see(connection, lake)
        attach(connection, file, file.stem)
        connection.execute(f"SET allowed_directories = [{literal(lake.base)}]")
        close_off(connection)
        try:
            # COPY would write beside the files that it may read.
            if type_of(connection, statement) != duckdb.StatementType.SELECT:
                raise QueryError("only SELECT, FROM, SHOW and DESCRIBE can be asked of the lake")
            return connection.execute(storable(statement)).to_arrow_table()
        except (duckdb.Error, OSError) as error:
            raise QueryError(str(error)) from error


def add_context(
    lake: ParquetLake, folder: Path, statement: str, connection: duckdb.DuckDBPyConnection
) -> None:
    """Add those of CONTEXT_TABLES that a statement names to a connection as temporary tables, as
    the lake has them now.
    """
    file = lake_file(lake, folder)
    see(connection, lake)
    copy_context(file, statement, connection)
