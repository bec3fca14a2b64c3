"""Each rule over a table of the published file finds the rows that break it, and no others."""

import ibis
import pyarrow as pa
import pytest

from transforms.operations import table_checks
from transforms.schemas.registry import REGISTRY

SPANS = pa.list_(
    pa.struct([("byte_start", pa.int64()), ("byte_end", pa.int64()), ("role", pa.string())])
)
BODY = "one@example.org"


def chunk(start: int, end: int, doc_id: str = BODY) -> dict[str, object]:
    span = {"byte_start": start, "byte_end": end, "role": "own"}
    return {
        "chunk_id": f"{doc_id}-{start}",
        "doc_id": doc_id,
        "attachment_id": None,
        "spans": [span],
    }


def excluded(start: int, end: int) -> dict[str, object]:
    return {"doc_id": BODY, "attachment_id": None, "byte_start": start, "byte_end": end}


def block(index: int, kind: str, start: int, end: int, message_id: str = BODY) -> dict[str, object]:
    return {
        "message_id": message_id,
        "block_index": index,
        "kind": kind,
        "byte_start": start,
        "byte_end": end,
    }


def tables(**rows: list[dict[str, object]]) -> dict[str, ibis.Table]:
    """The tables that rules over mails read, with these rows."""
    types = {
        "attachment_id": pa.string(),
        "spans": SPANS,
        "byte_start": pa.int64(),
        "byte_end": pa.int64(),
        "block_index": pa.int64(),
    }
    columns = {
        "messages": ["message_id"],
        "documents": ["doc_id"],
        "conversation_windows": ["doc_id"],
        "attachments": ["attachment_id", "message_id"],
        "blocks": ["message_id", "block_index", "kind", "byte_start", "byte_end"],
        "chunks": ["chunk_id", "doc_id", "attachment_id", "spans"],
        "exclusions": ["doc_id", "attachment_id", "byte_start", "byte_end"],
    }
    schemas = {
        name: pa.schema([(c, types.get(c, pa.string())) for c in columns[name]]) for name in columns
    }
    return {n: ibis.memtable(pa.Table.from_pylist(rows.get(n, []), schemas[n])) for n in columns}


def broken(rule: str, table: str, **rows: list[dict[str, object]]) -> list[str]:
    return sorted(
        table_checks.violations(rule, table, tables(**rows)).to_pyarrow()["id"].to_pylist()
    )


def test_a_key_that_two_rows_have_is_found():
    two = [block(0, "author", 0, 5), block(0, "author", 5, 9), block(1, "author", 5, 9)]
    assert broken(table_checks.UNIQUE, "blocks", blocks=two) == [f"{BODY} 0"]
    assert broken(table_checks.UNIQUE, "blocks", blocks=two[1:]) == []


def test_what_refers_to_nothing_is_found_and_what_refers_to_no_one_is_not():
    messages = [{"message_id": BODY}]
    rows = [chunk(0, 5), chunk(0, 5, "gone"), {**chunk(0, 5), "attachment_id": "lost"}]
    found = broken(table_checks.RESOLVED, "chunks", messages=messages, chunks=rows)
    assert found == ["gone", "lost"]
    documents = [{"doc_id": "gone"}]
    assert (
        broken(
            table_checks.RESOLVED, "chunks", messages=messages, documents=documents, chunks=rows[:2]
        )
        == []
    )


@pytest.mark.parametrize(
    ("chunks", "exclusions", "lost"),
    [
        ([chunk(0, 10)], [], []),
        ([chunk(0, 4)], [excluded(4, 10)], []),
        ([chunk(0, 9)], [], [BODY]),
        ([chunk(1, 10)], [], [BODY]),
        ([], [excluded(0, 10)], []),
        ([chunk(0, 10, "two@example.org")], [], [BODY]),
        ([{**chunk(0, 10), "attachment_id": "a"}], [], [BODY]),
    ],
    ids=["chunk", "both", "end", "start", "exclusion", "another mail", "attachment"],
)
def test_lines_that_somebody_wrote_and_nothing_holds_are_found(
    chunks: list[dict[str, object]], exclusions: list[dict[str, object]], lost: list[str]
):
    blocks = [block(0, "author", 0, 10), block(1, "blank", 10, 12), block(2, "quote", 12, 20)]
    assert (
        broken(table_checks.NOT_LOST, "blocks", blocks=blocks, chunks=chunks, exclusions=exclusions)
        == lost
    )


def test_every_published_table_has_a_key_and_refers_to_columns_that_there_are():
    published = {t.published for t in REGISTRY.values() if t.published}
    assert published < set(table_checks.KEYS)
    columns = {t.published: set(t.schema.names) for t in REGISTRY.values() if t.published}
    for table, references in table_checks.REFERENCES.items():
        assert table in table_checks.KEYS
        for column, targets in references.items():
            assert column in columns.get(table, {column})
            for target in targets:
                name, _, other = target.partition(".")
                assert name in table_checks.KEYS and other in columns.get(name, {other}) | {
                    "chunk_key"
                }
