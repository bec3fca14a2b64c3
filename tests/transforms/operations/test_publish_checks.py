"""The rules that tables keep before they are published."""

from collections.abc import Callable
from typing import Any

import ibis
import pyarrow as pa
import pytest

from transforms.hashing import text_hash
from transforms.operations.publish_checks import PUBLISH_RULES, rule_violations
from transforms.schemas.chunks import CHUNK_CONTEXT, CHUNKS, EMBEDDING_REFUSALS, embeddings_table

Tables = dict[str, list[dict[str, Any]]]


def sound() -> Tables:
    return {
        "chunks": [{"chunk_id": i, "checksum": f"hash-{i}", "text_embed": i} for i in ("a", "b")],
        "context": [{"chunk_id": "b", "checksum": "hash-of-b-with-parent", "text_embed": "b+"}],
        "embeddings": [
            {"text_hash": h, "model": "m", "dimensions": 2, "task": "document"}
            for h in ("hash-a", "hash-of-b-with-parent")
        ],
        "refusals": [],
    }


DECLARED = {
    "chunks": CHUNKS,
    "context": CHUNK_CONTEXT,
    "embeddings": embeddings_table(2),
    "refusals": EMBEDDING_REFUSALS,
}


def rows_of(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([(c.name, c.type) for c in DECLARED[name].columns])
    return pa.Table.from_pylist(rows, schema=schema)


def found(tables: Tables) -> dict[str, list[str]]:
    made = {name: ibis.memtable(rows_of(name, rows)) for name, rows in tables.items()}
    rules = rule_violations(*(made[name] for name in DECLARED), "m", 2)
    return {rule: rows.to_pyarrow().column("id").to_pylist() for rule, rows in rules.items()}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda t: None, {}),
        (lambda t: [rows.clear() for rows in t.values()], {}),
        (lambda t: t["refusals"].append({**t["embeddings"].pop(0), "reason": "blocked"}), {}),
        (lambda t: t["chunks"].append(t["chunks"][0]), {"chunk_ids_are_unique": ["a"]}),
        (lambda t: t["embeddings"].pop(0), {"every_chunk_has_its_vector": ["hash-a"]}),
        (
            lambda t: t["embeddings"].pop(1),
            {"every_chunk_has_its_vector": ["hash-of-b-with-parent"]},
        ),
        (lambda t: t["embeddings"][0].update(model="x"), {"vectors_are_of_the_model": ["hash-a"]}),
        (
            lambda t: t["embeddings"][0].update(dimensions=3),
            {"vectors_are_of_the_model": ["hash-a"]},
        ),
        (
            lambda t: t["embeddings"][0].update(task="query"),
            {"vectors_are_of_the_model": ["hash-a"]},
        ),
    ],
    ids=[
        "sound",
        "empty",
        "refused",
        "twice",
        "no vector",
        "none with context",
        "model",
        "width",
        "task",
    ],
)
def test_each_rule_finds_the_rows_that_break_it(
    change: Callable[[Tables], object], broken: dict[str, list[str]]
):
    tables = sound()
    change(tables)
    assert found(tables) == dict.fromkeys(PUBLISH_RULES, []) | broken


def test_no_rule_reads_the_texts():
    tables, database = sound(), ibis.duckdb.connect()
    tables["chunks"].append({"chunk_id": "c", "checksum": text_hash(""), "text_embed": ""})
    stored = [database.create_table(name, rows_of(name, tables[name])) for name in DECLARED]
    for rows in rule_violations(*stored, "m", 2).values():
        ((_, plan),) = database.raw_sql(f"EXPLAIN {database.compile(rows.count())}").fetchall()
        assert "SCAN" in plan
        assert "text_embed" not in plan
