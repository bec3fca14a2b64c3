"""Expressions give the rows that Ibis's own backend gives, with SQL that is compiled or that a process stored."""

from pathlib import Path

import ibis
import pyarrow as pa
import pytest
from ibis.backends.duckdb import Backend

from dagster_project.lake.lake_backend import LakeBackend, statements

WORDS = ["", "plain", "quote's", "'); DROP TABLE a; --", " IN (list 0)", "\\1 IN ('')"]
LISTS = [(WORDS, WORDS[1:]), (WORDS[:1], WORDS[4:]), (WORDS[3:5], []), (WORDS[5:], WORDS[:4])]


def rows(backend: Backend, first: list[str], second: list[str]) -> list[dict[str, object]]:
    """The rows of an expression with two lists of words and a table that is in it three times."""
    backend.con.register("a", pa.table({"word": WORDS, "n": range(len(WORDS))}))
    table = backend.table("a")
    twice = table.view().filter(lambda t: t.word.isin(first)).join(table.view(), "n")
    found = twice.filter(lambda t: t.word_right.isin(second) | (t.n == 0)).select("word", "n")
    return backend.to_pyarrow(ibis.union(found, table).order_by("word", "n")).to_pylist()


@pytest.mark.parametrize("damage", [None, "{", "WHERE"])
def test_statements_that_an_earlier_process_stored_give_the_same_rows(
    tmp_path: Path, damage: str | None
) -> None:
    file = tmp_path / "new" / "statements.json"
    for lists in LISTS:
        statements(file).clear()
        statements.cache_clear()
        backend = LakeBackend(file)
        assert rows(backend, *lists) == rows(ibis.duckdb.connect(), *lists)
        backend.disconnect()
        if damage:
            file.write_text(file.read_text().replace(damage, "?"))
