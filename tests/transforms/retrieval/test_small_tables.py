"""Tables of a few hundred rows, by place and by column."""

import numpy as np
import polars as pl
import pytest

from transforms.retrieval.small_tables import is_given, rows_at, with_values

TABLE = pl.DataFrame({"a": [1, 2, None, 4], "b": ["x", None, "y", "z"]})


@pytest.mark.parametrize("rows", [[], [0], [1, 2], [0, 1, 2, 3], [3, 0, 2], [2, 2], [3, 2, 1]])
def test_rows_are_taken_in_their_order(rows: list[int]):
    assert rows_at(TABLE, np.array(rows, dtype=np.int64)).rows() == [TABLE.row(n) for n in rows]


def test_a_table_is_not_changed_by_the_values_of_another():
    made = with_values(TABLE, a=np.array([9, 8, 7, 6]), c=pl.Series([True, False, None, True]))
    assert made.columns == ["a", "b", "c"]
    assert made.row(2) == (7, "y", None)
    assert TABLE.columns == ["a", "b"] and TABLE.row(2) == (None, "y")


def test_what_is_not_null_is_given():
    lists = pl.Series([[1], None, []], dtype=pl.List(pl.Int64))
    assert is_given(TABLE.get_column("b")).tolist() == [True, False, True, True]
    assert is_given(lists).tolist() == [True, False, True]
    assert is_given(lists[2:]).tolist() == [True]
