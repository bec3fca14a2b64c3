"""DuckDB extensions from installed wheels; nothing is downloaded, signatures stay checked."""

from __future__ import annotations

from pathlib import Path

import duckdb
import duckdb_extension_vss


def load_vss(connection: duckdb.DuckDBPyConnection) -> None:
    """Load the VSS extension (HNSW indexes) from the file in the `duckdb-extension-vss` wheel."""
    folder = Path(duckdb_extension_vss.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection.execute(f"LOAD '{folder / 'vss.duckdb_extension'}'")
