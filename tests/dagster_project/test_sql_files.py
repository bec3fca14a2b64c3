"""The statements of `.sql` files."""

from pathlib import Path

import duckdb
import pytest

from dagster_project.system.sql_files import SqlFile, identifiers, literal

HARD = 'it\'s {a} "b"; --'


def test_a_value_is_quoted_as_its_place_asks(tmp_path: Path):
    (tmp_path / "some.sql").write_text(
        "-- Three.\n-- name: both\nCREATE TABLE \"of {table}\" AS SELECT '{text}' AS {column};\n-- A comment.\n"
        "INSERT INTO \"of {table}\" {source}\n-- name: rows\nSELECT '{text}' || $value || '{2,}'\n-- name: all\n{rows}\n"
    )
    sql = SqlFile(str(tmp_path / "module.py"), "some.sql", text=HARD)
    with duckdb.connect() as connection:
        source = f"SELECT {literal(HARD)}"
        connection.execute(sql("both", table=HARD, column=identifiers([HARD]), source=source))
        table = connection.execute(f"FROM {identifiers(['of ' + HARD])}")
        assert (table.description[0][0], table.fetchall()) == (HARD, [(HARD,), (HARD,)])
        assert connection.execute(sql("all"), {"value": HARD}).fetchall() == [(HARD * 2 + "{2,}",)]
    assert [*sql] == ["both", "rows", "all"]
    with pytest.raises(KeyError, match="rows names a value and a statement"):
        sql("both", table="t", column="c", source="FROM t", rows="FROM t")
