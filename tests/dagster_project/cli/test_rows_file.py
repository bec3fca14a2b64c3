"""`weft sql --to FILE`: rows, or the mails that they name, as a new file."""

import mailbox
from contextlib import closing
from pathlib import Path

import duckdb

from tests.archives import Workspace

ROW = "SELECT 'a,b' AS a, '=1+1' AS b, [1, NULL] AS c"
ALL = "SELECT message_id FROM messages"
REFUSED = [
    ("x.csv", ROW, "is there already"),
    ("x.txt", ROW, "must end in"),
    ("no/y.csv", ROW, "folder"),
    ("y.csv", "SELECT 1 AS a, 2 AS a", "two columns"),
    ("y.mbox", ROW, "message_id"),
    ("y.mbox", "SELECT 'none' AS message_id", "holds no mail 'none'"),
]


def test_rows_and_mails_are_written_whole_or_not_at_all(built_once: Workspace, tmp_path: Path):
    for name, statement in {"x.csv": ROW, "x.jsonl": ROW, "x.parquet": ROW, "x.mbox": ALL}.items():
        assert built_once.weft("sql", "--to", str(tmp_path / name), statement).exit_code == 0
    assert (tmp_path / "x.csv").read_text() == 'a,b,c\n"a,b",\'=1+1,"[1, null]"\n'
    assert (tmp_path / "x.jsonl").read_text() == '{"a": "a,b", "b": "=1+1", "c": [1, null]}\n'
    assert duckdb.sql(f"FROM '{tmp_path}/x.parquet'").fetchall() == [("a,b", "=1+1", [1, None])]
    with closing(mailbox.mbox(tmp_path / "x.mbox")) as mails:
        ids = [mail["Message-ID"].strip("<>") for mail in mails]
    assert ids == built_once.column(ALL)
    for name, statement, why in REFUSED:
        refused = built_once.weft("sql", "--to", str(tmp_path / name), statement)
        assert refused.exit_code == 2 and why in refused.stderr
    assert len([*tmp_path.iterdir()]) == 4
