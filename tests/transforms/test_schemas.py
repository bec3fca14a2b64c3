"""The declared tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from transforms import schemas
from transforms.errors import SchemaError

TABLES = [t for t in vars(schemas).values() if isinstance(t, schemas.Table)] + [schemas.embeddings(256)]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_table_explains_itself(table: schemas.Table):
    assert table.comment.endswith(".")
    assert set(table.key) <= set(table.names)
    assert len(set(table.names)) == len(table.names)
    assert all(c.comment and not c.comment.endswith(".") for c in table.columns)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_an_empty_table_conforms(table: schemas.Table):
    assert table.conform(table.empty()).schema.equals(table.arrow, check_metadata=True)


def test_columns_are_matched_by_name_and_cast():
    data = pa.table({"tf": pa.array([1], pa.int8()), "term": ["fox"], "field": ["text"], "chunk_id": ["a"]})
    made = schemas.TERMS.conform(data)
    assert made.column_names == ["chunk_id", "field", "term", "tf"]
    assert made.schema.field("tf").type == pa.int32()


def test_an_undeclared_key_of_a_row_is_refused():
    with pytest.raises(SchemaError, match=r"terms.*\['idf'\]"):
        schemas.TERMS.from_rows([{"chunk_id": "a", "field": "text", "term": "fox", "tf": 1, "idf": 2.0}])
