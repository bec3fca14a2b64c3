"""Chunkers fill what they know; the other columns of `chunks` are neutral."""

import pytest

from transforms.chunks.table import NEUTRAL, chunk_table, chunks_from_rows
from transforms.errors import SchemaError
from transforms.hashing import text_hash
from transforms.schemas.chunks import CHUNKS

ROW = {
    "chunk_id": "c",
    "source_kind": "document",
    "source": "s",
    "partition": "u",
    "doc_id": "d",
    "chunk_kind": "section",
    "chunk_index": 0,
    "chunk_count": 1,
    "text_display": "Déjà",
    "text_embed": "T\n\nDéjà",
    "spans": [{"byte_start": 0, "byte_end": 6, "role": "own"}],
    "chunker": "sections-1",
}


def test_what_a_chunker_does_not_fill_is_neutral_or_derived():
    table = chunks_from_rows([ROW, {**ROW, "chunk_id": "b"}])
    assert table.schema.equals(CHUNKS.arrow)
    for row in table.to_pylist():
        assert {name: row[name] for name in NEUTRAL} == NEUTRAL
        assert (row["char_count"], row["text_lex"]) == (4, ROW["text_display"])
        assert row["checksum"] == text_hash(ROW["text_embed"])


def test_what_a_chunker_fills_stays():
    (row,) = chunks_from_rows([{**ROW, "text_lex": "x", "checksum": "y", "title": "T"}]).to_pylist()
    assert (row["text_lex"], row["checksum"], row["title"]) == ("x", "y", "T")


def test_no_rows_are_a_table():
    assert chunks_from_rows([]).equals(CHUNKS.empty())


@pytest.mark.parametrize("name", ["chunk_id", "doc_id", "spans", "chunker"])
def test_a_column_that_must_be_filled_is_named(name: str):
    with pytest.raises(SchemaError, match=name):
        chunk_table({k: [v] for k, v in ROW.items() if k != name})


def test_an_undeclared_column_is_named():
    with pytest.raises(SchemaError, match="colour"):
        chunks_from_rows([{**ROW, "colour": "red"}])
