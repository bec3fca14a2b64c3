"""The tables of the context of chats for a statement on an index: they are made from a published
version, so that they come after it and are in a file of their own.
"""

from pathlib import Path

import duckdb

from dagster_project.system.sql_files import SqlFile

_SQL = SqlFile(__file__, "context_sql.sql")
CONTEXT_TABLES = (
    "conversation_query_chunks",
    "conversation_candidates",
    "conversation_documents",
    "conversation_context",
    "conversation_retrievals",
)
"""The tables, and the view that joins them."""


def is_about_context(statement: str) -> bool:
    """True if a statement may ask for one of CONTEXT_TABLES."""
    return any(name in statement.lower() for name in CONTEXT_TABLES)


def copy_context(file: Path, statement: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Copy those of CONTEXT_TABLES that a statement names from a file to temporary tables.

    Those that it lacks are left out.
    """
    connection.execute(_SQL("attached", file=str(file)))
    there = {name for (name,) in connection.execute(_SQL("names")).fetchall()}
    for name in CONTEXT_TABLES:
        if name in there and name in statement.lower():
            connection.execute(_SQL("copied", name=name))
    connection.execute("DETACH contexts_now")
