"""What is known of a published file: its name, how the current one is found, its layout, and whether it is whole."""

from __future__ import annotations

from pathlib import Path

import duckdb

_HEADERS = 3 * 4096
"""Bytes of a DuckDB file before its first block."""
CURRENT = "CURRENT"
"""The link to the current version, in the folder of the published files."""
LAYOUT = "10"
"""Version of the published tables; rows of a file of another layout are not taken over."""


def version_of(file: Path) -> str:
    """The version that a published file holds, by its name."""
    return file.stem.removeprefix("weft-")


def require_whole(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """duckdb.IOException if the open file is too short for what it holds, which DuckDB meets only when it reads there.

    Free blocks do not count: those at the end need not be there.
    """
    (blocks,) = connection.execute(
        "SELECT block_size * used_blocks FROM pragma_database_size() WHERE database_name = current_database()"
    ).fetchone() or (0,)
    if file.stat().st_size < (least := blocks + _HEADERS):
        raise duckdb.IOException(
            f"{file.name} is cut off: {file.stat().st_size:,} of at least {least:,} bytes"
        )
