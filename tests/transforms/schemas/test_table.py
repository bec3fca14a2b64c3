"""The declared tables."""

import importlib
import pkgutil

import pyarrow as pa
import pytest

import transforms.schemas
from transforms.errors import SchemaError
from transforms.schemas.chunks import TERMS, embeddings_table
from transforms.schemas.table import Table

SUBJECTS = [
    importlib.import_module(f"transforms.schemas.{module.name}")
    for module in pkgutil.iter_modules(transforms.schemas.__path__)
]
DECLARED = {
    t.name: t for subject in SUBJECTS for t in vars(subject).values() if isinstance(t, Table)
}
TABLES = [*DECLARED.values(), embeddings_table(256)]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_table_explains_itself(table: Table):
    assert table.comment.endswith(".")
    assert set(table.key) <= set(table.names)
    assert len(set(table.names)) == len(table.names)
    assert all(c.comment and not c.comment.endswith(".") for c in table.columns)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_an_empty_table_conforms(table: Table):
    assert table.conform(table.empty()).schema.equals(table.arrow, check_metadata=True)


def test_columns_are_matched_by_name_and_cast():
    data = pa.table(
        {"tf": pa.array([1], pa.int8()), "term": ["fox"], "field": ["text"], "chunk_id": ["a"]}
    )
    made = TERMS.conform(data)
    assert made.column_names == ["chunk_id", "field", "term", "tf"]
    assert made.schema.field("tf").type == pa.int32()


def test_an_undeclared_key_of_a_row_is_refused():
    with pytest.raises(SchemaError, match=r"terms.*\['idf'\]"):
        TERMS.from_rows([{"chunk_id": "a", "field": "text", "term": "fox", "tf": 1, "idf": 2.0}])
