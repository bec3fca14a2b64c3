"""SQL on the tables of the lake, through a file of views."""

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.index.search.statements.lake_sql import query_lake
from tests.archives import Mail, Workspace
from transforms.errors import QueryError


def asked(work: Workspace, statement: str) -> list[dict]:
    """The rows that `weft sql --lake` prints."""
    arguments = ["sql", "--lake", "--json", "--config", str(work.config), statement]
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    return list(json.loads(said.stdout))


def test_the_lake_answers_sql_with_each_partition_by_name(built: Workspace):
    counts = asked(
        built, "SELECT partition, count(*) AS mails FROM messages GROUP BY ALL ORDER BY ALL"
    )
    assert counts == [
        {"partition": partition, "mails": built.lake.read("messages", partition).table.num_rows}
        for partition in built.lake.partitions("messages")
    ]
    for table in ("embeddings", "threads", "memberships", "message_chunks"):
        (row,) = asked(built, f"SELECT count(*) AS rows FROM {table}")
        parts = built.lake.partitions(table) or [None]
        assert row["rows"] == sum(built.lake.read(table, p).table.num_rows for p in parts) > 0
    with duckdb.connect(str(built.index / "lake.duckdb"), read_only=True) as plain:
        assert plain.sql("SELECT count(*) FROM messages").fetchone() == (
            sum(c["mails"] for c in counts),
        )


@pytest.mark.exhaustive
def test_what_came_since_is_seen_and_very_long_texts_are_among_the_chunks(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1), Mail(2, "word " * 40_000)])
    workspace.build()
    assert asked(workspace, "SELECT count(DISTINCT doc_id) AS mails FROM message_chunks") == [
        {"mails": 2}
    ]
    workspace.write("dev.2004-02.mbox", [Mail(3)])
    workspace.build()
    assert asked(workspace, "SELECT count(DISTINCT doc_id) AS mails FROM message_chunks") == [
        {"mails": 3}
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("FROM read_text('/etc/hostname')", "disabled by configuration"),
        ("COPY (SELECT 1) TO '{lake}/x.csv'", "only SELECT"),
        ("CREATE TABLE t AS SELECT 1", "only SELECT"),
        ("SELECT 1; SELECT 2", "2 SQL statements"),
        ("FROM nowhere", "does not exist"),
        ("SELEKT", "syntax error"),
        (" ;", "is empty"),
    ],
)
def test_it_reads_the_lake_alone(built_once: Workspace, tmp_path: Path, statement: str, words: str):
    lake = built_once.lake
    with pytest.raises(QueryError, match=words):
        query_lake(lake, tmp_path, statement.format(lake=lake.base))
    assert not list(Path(str(lake.base)).glob("*.csv"))
