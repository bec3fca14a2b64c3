"""The statements of `.sql` files."""

from pathlib import Path

import duckdb

from dagster_project.system.sql_files import SqlFile, identifiers, literal

HARD = 'it\'s {a} "b"; --'


def test_a_value_is_quoted_as_its_place_asks(tmp_path: Path):
    (tmp_path / "some.sql").write_text(
        "-- Of two statements.\n-- name: both\nCREATE TABLE \"of {table}\" AS SELECT '{text}' AS {column};\n"
        "-- A comment.\nINSERT INTO \"of {table}\" {rows}\n-- name: rows\nSELECT '{text}' || $value || '{2,}'\n"
    )
    sql = SqlFile(str(tmp_path / "module.py"), "some.sql", text=HARD)
    with duckdb.connect() as connection:
        connection.execute(
            sql("both", table=HARD, column=identifiers([HARD]), rows=f"SELECT {literal(HARD)}")
        )
        table = connection.execute(f"FROM {identifiers(['of ' + HARD])}")
        assert (table.description[0][0], table.fetchall()) == (HARD, [(HARD,), (HARD,)])
        assert connection.execute(sql("rows"), {"value": HARD}).fetchall() == [(HARD * 2 + "{2,}",)]
    assert ("SELECT" in sql("both", table="t", column="c"), [*sql]) == (True, ["both", "rows"])
