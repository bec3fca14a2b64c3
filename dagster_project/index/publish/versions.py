"""The names, the layout version and the integrity check of published files."""

import errno
from pathlib import Path

import duckdb

from dagster_project.system.sql_files import literal
from transforms.errors import IndexUnavailableError

_HEADERS = 3 * 4096
"""Bytes of a DuckDB file before its first block."""
CURRENT = "CURRENT"
"""The link to the current version, in the folder of the published files."""
LENSES = "lenses"
"""The folder of the files of lenses, beside that of the published files."""
LAYOUT = "16"
"""Version of the meaning of the published rows, to be raised if that changes while the columns do
not: rows of a file of another layout are not reused, and such a file is not opened.
"""

_NEEDED = {"manifest", "chunks", "postings", "terms", "embeddings"}
_READ_AT_ONCE = 1 << 22


def version_of(file: Path) -> str:
    """The version that a published file holds, by its name."""
    return file.stem.removeprefix("weft-")


def require_whole(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """duckdb.IOException if the open file is truncated, which DuckDB itself notices only when it
    reads the missing end.

    Free blocks do not count: the file need not have those at its end.
    """
    (blocks,) = connection.execute(
        "SELECT block_size * used_blocks FROM pragma_database_size() WHERE database_name = current_database()"
    ).fetchone() or (0,)
    if file.stat().st_size < (least := blocks + _HEADERS):
        raise duckdb.IOException(
            f"{file.name} is cut off: {file.stat().st_size:,} of at least {least:,} bytes"
        )


def attach(connection: duckdb.DuckDBPyConnection, file: Path, name: str) -> None:
    """Attach a published file read-only as the default database of a connection; as `require_whole`
    if it is truncated.
    """
    connection.execute(f'ATTACH {literal(file)} AS "{name}" (READ_ONLY)')
    connection.execute(f'USE "{name}"')
    require_whole(connection, file)


def current_version(folder: Path) -> Path:
    """The file that `CURRENT` in `folder` names; IndexUnavailableError if nothing is published
    there.
    """
    link = folder / CURRENT
    if not link.exists():
        raise IndexUnavailableError(f"nothing is published in {folder}: run `weft build` first")
    return link.resolve()


def damage_of(path: Path) -> str | None:
    """The damage of the bytes of a published file, which reads all of them; None without damage.

    OSError if the system refuses to give them.
    """
    with path.open("rb") as file:
        while file.read(_READ_AT_ONCE):
            pass
    try:
        # An instance of its own: that of the fault may be of no use any more.
        with duckdb.connect() as connection:
            attach(connection, path, "examined")
            tables, views = (
                connection.execute(
                    f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE database_name = 'examined' ORDER BY ALL"
                ).fetchall()
                for kind in ("table", "view")
            )
            for (table,) in tables:
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" t')
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        # DuckDB has no type of its own for a file that another process writes to.
        if "Could not set lock" in str(error):
            raise OSError(errno.EBUSY, first_line(error)) from error
        return first_line(error)
    missing = sorted(_NEEDED - {name for (name,) in (*tables, *views)})
    return f"it has no table {', '.join(missing)}" if missing else None


def first_line(error: Exception) -> str:
    """The first line of an error, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]
