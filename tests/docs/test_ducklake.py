"""The statements of docs/sql.md for a DuckLake beside the lake."""

import re
from pathlib import Path

import duckdb
import pytest

from dagster_project.index.publish.lake_views import lake_file
from tests.archives import Workspace

extension = pytest.importorskip(
    "duckdb_extension_ducklake", reason="DuckDB's extension is not installed"
)

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()


def test_many_may_write_beside_the_tables_of_the_lake(built_once: Workspace, tmp_path: Path):
    (statements,) = (
        block for block in re.findall(r"```text\n(.*?)```", PAGE, re.S) if "ducklake:" in block
    )
    lake = lake_file(built_once.lake, tmp_path / "data" / "index")
    for place in ("data/index", "shared"):
        statements = statements.replace(f"'{place}", f"'{tmp_path}/{place}")
    statements = statements.replace("ducklake:", f"ducklake:{tmp_path}/")
    (file,) = Path(extension.__file__).parent.rglob("*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{file}'")
        noted = connection.execute(statements).fetchall()
    with duckdb.connect(str(lake), read_only=True) as connection:
        subjects = connection.execute(
            "SELECT subject FROM messages WHERE subject ILIKE '%compactor%' ORDER BY ALL"
        ).fetchall()
    assert noted == [(subject, "to be read") for (subject,) in subjects] and noted
