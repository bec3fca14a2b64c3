"""Postings that are taken over and merged are those that are counted anew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.merged_postings import GONE, merged_postings

SCHEMA = pa.schema([("term_id", pa.int32()), ("chunk_no", pa.int32()), ("text_tf", pa.uint16())])
POSTINGS = st.dictionaries(st.tuples(st.integers(0, 8), st.integers(0, 8)), st.integers(1, 9), max_size=40)


def table(rows: dict[tuple[int, int], int]) -> pa.Table:
    ordered = sorted(rows.items())
    columns = (
        zip(*((term, chunk, tf) for (term, chunk), tf in ordered), strict=True) if rows else ((), (), ())
    )
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@settings(deadline=None)
@given(
    POSTINGS,
    POSTINGS,
    st.sets(st.integers(0, 8)),
    st.sets(st.integers(0, 8)),
    st.sets(st.integers(0, 8)),
    st.integers(1, 7),
)
def test_a_merge_is_the_union_in_order(
    old: dict[tuple[int, int], int],
    new: dict[tuple[int, int], int],
    terms_gone: set[int],
    chunks_gone: set[int],
    chunks_new: set[int],
    size: int,
):
    # Every chunk number that is new moves the older ones behind it.
    numbers = [n for n in range(18) if n not in chunks_new]
    chunk_of = np.array([GONE if n in chunks_gone else numbers[n] for n in range(9)], dtype=np.int32)
    term_of = np.array([GONE if n in terms_gone else 2 * n for n in range(9)], dtype=np.int32)
    kept = {
        (int(term_of[t]), int(chunk_of[c])): tf
        for (t, c), tf in old.items()
        if t not in terms_gone and c not in chunks_gone
    }
    added = {key: tf for key, tf in new.items() if key not in kept}
    made = merged_postings(table(old).to_batches(max_chunksize=size), term_of, chunk_of, table(added))
    assert pa.Table.from_batches(made, SCHEMA) == table(kept | added)
