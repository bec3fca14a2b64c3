"""The plan is a query: any client of SQLite or DuckDB that runs it gets the plan of the build."""

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dagster_project.ledger import ledger as ledger_module
from dagster_project.ledger.ledger import Row, steps_of
from tests.archives import Mail, Workspace

PLAN = Path(ledger_module.__file__).with_name("plan.sql")
STEPS = (
    "SELECT kind, part, table_name, action, reason FROM plan WHERE action <> 'keep' "
    "ORDER BY kind, part, position, table_name"
)
READ = ("partitions", "stages", "reads", "forgets", "outputs")
NUMBERS = {"position", "is_table", "row_count", "waiting", "checksum"}


def stored_rows(file: Path, statement: str) -> list[Row]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def in_duckdb(file: Path) -> list[Row]:
    with duckdb.connect() as connection, closing(sqlite3.connect(file)) as ledger:
        for table in READ:
            names = [row[1] for row in ledger.execute(f"PRAGMA table_info({table})")]
            types = [f"{name} {'BIGINT' if name in NUMBERS else 'VARCHAR'}" for name in names]
            connection.execute(f"CREATE TABLE {table} ({', '.join(types)})")
            marks = ", ".join("?" * len(names))
            for row in ledger.execute(f"SELECT * FROM {table}"):
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        connection.execute(PLAN.read_text())
        return connection.execute(STEPS).fetchall()


def test_clients_of_sqlite_and_duckdb_get_the_plan_of_the_build(built: Workspace):
    built.write("users/users.2004-07.mbox", [Mail(900, "Other mail.", "News")])
    next((built.folder / "mail" / "dev").iterdir()).unlink()
    next((Path(built.settings.lake_uri) / "message_blocks").rglob("*.parquet")).unlink()
    plan, file = built.plan(), built.lake.ledger.file
    rows = stored_rows(file, STEPS)
    assert rows == in_duckdb(file)
    stale = {part for kind, part, *_ in rows if kind == "mail"}
    assert stale == plan.stale.keys() and "users/2004-07" in stale
    actions = {action for *_, action, _ in rows}
    assert actions == {"insert", "replace", "delete"}
    assert {reason for kind, *_, reason in rows if kind == "mail"} >= {*plan.reasons.values()}


INPUTS = {"blocks": "messages", "chunks": "blocks"}
PRESENT = {
    "messages": ('{"partition":"now"}', "h-messages"),
    "blocks": ('{"messages":"h-messages"}', "h-blocks"),
    "chunks": ('{"blocks":"h-blocks"}', "h-chunks"),
}


def output(table: str, **other: str | int | None) -> Row:
    inputs, content = PRESENT[table]
    own = {"inputs": inputs, "code": "1", "settings": "s", "content": content, "waiting": 0} | other
    counts = own["content"], 1, own["waiting"]
    return "", "", own["code"], own["settings"], own["inputs"], *counts


CASES: dict[str, tuple[dict[str, Row | None], dict[str, str]]] = {
    "nothing": ({}, {}),
    "a table is gone": (
        {"blocks": None},
        {"blocks": "blocks is missing", "chunks": "follows from another table"},
    ),
    "no table is there": (
        dict.fromkeys(PRESENT),
        {
            "messages": "new",
            "blocks": "follows from another table",
            "chunks": "follows from another table",
        },
    ),
    "the source changed": (
        {"messages": output("messages", inputs='{"partition":"then"}')},
        {
            "messages": "source changed",
            "blocks": "follows from another table",
            "chunks": "follows from another table",
        },
    ),
    "other code": (
        {"chunks": output("chunks", code="0")},
        {"chunks": "chunks is of another version of Weft"},
    ),
    "other settings": (
        {"chunks": output("chunks", settings="t")},
        {"chunks": "other settings of chunks"},
    ),
    "a damaged file": ({"chunks": output("chunks", content=None)}, {"chunks": "damaged"}),
    "an input more": (
        {"chunks": output("chunks", inputs='{"blocks":"h-blocks","other":"h"}')},
        {"chunks": "made from other tables than are there"},
    ),
    "an input was made again": (
        {"blocks": output("blocks", content="h-2")},
        {"chunks": "made from other tables than are there"},
    ),
    "long texts wait": (
        {"blocks": output("blocks", waiting=9)},
        {"blocks": "very long texts wait", "chunks": "very long texts wait"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_table_has_one_reason(case: str):
    changes, expected = CASES[case]
    present = {table: output(table) for table in PRESENT} | changes
    rows: dict[str, dict[Row, Row]] = {
        "partitions": {("mail", "dev/1"): ("now",)},
        "stages": {("mail", t): (n, t, "1", "s") for n, t in enumerate(PRESENT)},
        "reads": {
            ("messages", "partition"): (0,),
            **dict.fromkeys(INPUTS.items(), (1,)),
        },
        "outputs": {(table, "dev/1"): row for table, row in present.items() if row},
    }
    steps = steps_of(rows)
    assert {step.table: step.reason for step in steps} == expected
    of_insert = {step.table for step in steps if step.action == "insert"}
    assert of_insert == {table for table, row in present.items() if row is None}
