"""Texts that stay in the lake: what a published file has in their place, and how a reader gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from dagster_project.lake.referenced_texts import LakeTexts

TEXTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "messages": ("message_id", ("body",)),
    "attachments": ("attachment_id", ("text",)),
    "documents": ("doc_id", ("text",)),
    "conversation_windows": ("doc_id", ("markdown",)),
    "chunks": ("chunk_id", ("text_display", "text_embed")),
}
"""The texts of the published tables: the column that names a row in the lake, and those that stay there."""
PLACE = "texts_in"
"""What the manifest calls the place of the lake: a path from the folder of the file, or an address."""
MARK = "\x1f"
"""Begins a reference, and divides its parts."""
DIGITS = 16


def referring(published: str, table: str, partition: str, columns: Iterable[str]) -> list[str]:
    """Columns of a file of the lake as they are selected for a published table: a reference in place of each text."""
    key, texts = TEXTS.get(published, ("", ()))
    return [
        f"CASE WHEN {name} IS NOT NULL THEN concat_ws(chr(31), '', '{table}', '{name}', "
        f"'{partition.replace(chr(39), chr(39) * 2)}', {key}, md5({name})[:{DIGITS}]) END AS {name}"
        if name in texts
        else f'"{name}"'
        for name in columns
    ]


def texts_of(file: Path, facts: Mapping[str, str]) -> LakeTexts | None:
    """The texts of a published file with this manifest that stay in the lake; None if it has its own."""
    if PLACE not in facts:
        return None
    from dagster_project.lake.referenced_texts import LakeTexts

    return LakeTexts(facts[PLACE] if "://" in facts[PLACE] else str(file.parent / facts[PLACE]))


def show(connection: duckdb.DuckDBPyConnection, file: Path) -> LakeTexts | None:
    """Let a connection, whose default database is a published file, show its texts; None if the file has its own.

    Temporary views stand before the tables, also for its macros and views, and read a text for each row that simple
    conditions leave; of rows that joins choose, see `show_stored`.
    """
    texts = texts_of(file, dict(connection.execute("SELECT key, value FROM manifest").fetchall()))
    if texts:
        texts.add_function(connection)
        schema = _schema(connection)
        for table, (_, columns) in TEXTS.items():
            shown = ", ".join(f"lake_text({name}) AS {name}" for name in columns)
            connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT * REPLACE ({shown}) FROM {schema}.{table}"
            )
    return texts


def show_stored(connection: duckdb.DuckDBPyConnection, texts: LakeTexts | None) -> None:
    """After `show`, which returned `texts`: let statements take `stored_<table>`, which has `rowid` and maybe references.

    They apply `lake_text` to the rows that their joins leave; what a view selects is read before a join chooses.
    """
    statements = [] if texts else ["CREATE TEMP MACRO lake_text(reference) AS reference"]
    schema = _schema(connection)
    statements += [f"CREATE TEMP VIEW stored_{t} AS SELECT rowid, * FROM {schema}.{t}" for t in TEXTS]
    connection.execute(";".join(statements))


def _schema(connection: duckdb.DuckDBPyConnection) -> str:
    """The name of the tables' schema in the default database, whatever views stand before them."""
    (database,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    return f'"{database}".main'
