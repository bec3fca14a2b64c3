"""Hashes of sets of rows that are computed where the rows are, so that no list of them is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ibis


def fingerprints(rows: ibis.Table, by: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Of each group of `rows`, which have the columns `by` and `row` (int64, the hash of a row): its values of `by`, the
    number of its rows, and a hash of them whatever their order, sorted."""
    # In halves, whose sums an integer holds.
    sums = rows.group_by(*by).agg(
        rows=rows.count(), high=(rows.row >> 32).sum(), low=(rows.row & 0xFFFFFFFF).sum()
    )
    for *names, count, high, low in zip(*sums.order_by(*by).to_pyarrow().to_pydict().values(), strict=True):
        yield *names, count, f"{count}-{high}-{low}"
