"""Published files whose texts stay in the lake: how a connection shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dagster_project.lake.text_references import PLACE, TEXTS

if TYPE_CHECKING:
    from dagster_project.lake.referenced_texts import LakeTexts


def texts_of(file: Path, facts: Mapping[str, str]) -> LakeTexts | None:
    """The texts of a published file with this manifest that stay in the lake; None if it has its
    own.
    """
    if PLACE not in facts:
        return None
    from dagster_project.lake.referenced_texts import LakeTexts

    return LakeTexts(facts[PLACE] if "://" in facts[PLACE] else str(file.parent / facts[PLACE]))


def show(connection: duckdb.DuckDBPyConnection, file: Path) -> LakeTexts | None:
    """Let a connection, whose default database is a published file, show its texts; None if the
    file has its own.

    Temporary views stand before the tables, also for its macros and views, and read a text for each
    row that simple conditions leave; of rows that joins choose, see `show_stored`.
    """
    texts = texts_of(file, dict(connection.execute("SELECT key, value FROM manifest").fetchall()))
    if texts:
        texts.add_function(connection)
        schema = _schema(connection)
        for table, (_, columns) in TEXTS.items():
            values = ", ".join(f"lake_text({name}) AS {name}" for name in columns)
            connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT * REPLACE ({values}) FROM {schema}.{table}"
            )
    return texts


def show_stored(connection: duckdb.DuckDBPyConnection, texts: LakeTexts | None) -> None:
    """After `show`, which returned `texts`: let statements take `stored_<table>`, which has `rowid`
    and maybe references.

    They apply `lake_text` to the rows that their joins leave; a view reads its columns before a
    join chooses.
    """
    statements = [] if texts else ["CREATE TEMP MACRO lake_text(reference) AS reference"]
    schema = _schema(connection)
    statements += [
        f"CREATE TEMP VIEW stored_{t} AS SELECT rowid, * FROM {schema}.{t}" for t in TEXTS
    ]
    connection.execute(";".join(statements))


def _schema(connection: duckdb.DuckDBPyConnection) -> str:
    """The name of the tables' schema in the default database, whatever views stand before them."""
    (database,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    return f'"{database}".main'
