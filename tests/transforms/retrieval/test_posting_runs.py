"""Postings by way of sorted runs are those that are counted one by one, however the rows are cut."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.timing import seconds
from transforms.retrieval import bm25
from transforms.retrieval.posting_runs import (
    Run,
    no_postings,
    posting_run,
    postings,
    ranges,
    term_numbers,
)
from transforms.schemas.chunks import TERMS

CHUNKS = ["c0", "c1", "c2", "c3", "left out"]
NUMBERS = {"c0": 3, "c1": 0, "c2": 2, "c3": 1}
RESTATED = "c2"
Key = tuple[str, str, str]
ROWS = st.dictionaries(
    st.tuples(
        st.sampled_from(CHUNKS),
        st.sampled_from(bm25.FIELDS),
        st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600"]),
    ),
    st.one_of(st.integers(1, 9), st.integers(65_534, 70_000)),
    max_size=60,
)


def terms_table(rows: dict[Key, int]) -> pa.Table:
    columns = (
        zip(*((*key, tf) for key, tf in rows.items()), strict=True) if rows else ((), (), (), ())
    )
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, TERMS.arrow, strict=True)], TERMS.arrow
    )


def runs_of(tables: list[pa.Table], lengths: np.ndarray) -> list[Run]:
    ids, numbers = pa.array(list(NUMBERS)), np.array(list(NUMBERS.values()), dtype=np.int32)
    return [posting_run(table, ids, numbers, pa.array([RESTATED]), lengths) for table in tables]


def merged(runs: list[Run], rows_at_once: int) -> tuple[list[str], pa.Table]:
    names, numbers = term_numbers([run.terms for run in runs])
    batches = [no_postings()]
    for part in ranges(len(names), numbers, [run.starts for run in runs], rows_at_once):
        parts = []
        for run, own, (low, high) in zip(runs, numbers, part.parts, strict=True):
            rows = slice(run.starts[low], run.starts[high])
            parts.append(
                (
                    own[low:high],
                    np.diff(run.starts[low : high + 1]),
                    run.chunks[rows],
                    run.counts[rows],
                )
            )
        batches.append(postings(parts))
    return names.to_list(), pa.Table.from_batches(batches)


@settings(deadline=None)
@given(ROWS, st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_runs_are_merged_into_what_counting_gives(
    rows: dict[Key, int], cut: int, rows_at_once: int, encoded: bool
):
    expected: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * len(bm25.FIELDS))
    lengths = np.zeros((len(bm25.FIELDS), len(NUMBERS)), dtype=np.int32)
    for (chunk, field, term), tf in rows.items():
        if chunk in NUMBERS and not (chunk == RESTATED and field in ("text", "quote")):
            place = bm25.FIELDS.index(field)
            expected[term, NUMBERS[chunk]][place] = min(tf, 65_535)
            lengths[place, NUMBERS[chunk]] += min(tf, 65_535)
    table = terms_table(rows)
    tables = [table.slice(start, cut) for start in range(0, max(table.num_rows, 1), cut)]
    if encoded:
        tables = [
            pa.table([c.dictionary_encode() for c in t.columns[:3]] + [t["tf"]], t.column_names)
            for t in tables
        ]
    found = np.zeros_like(lengths)
    names, made = merged(runs_of(tables, found), rows_at_once)
    assert names == sorted({term for term, _ in expected}, key=str.encode)
    assert [
        ((names[row.pop("term_id")], row.pop("chunk_no")), list(row.values()))
        for row in made.to_pylist()
    ] == sorted(expected.items(), key=lambda item: (item[0][0].encode(), item[0][1]))
    assert (found == lengths).all()


def test_time_grows_with_the_rows():
    def work(chunks: int) -> None:
        rows = 40 * chunks
        table = pa.table(
            {
                "chunk_id": pa.array([f"c{n % chunks}" for n in range(rows)]),
                "field": pa.array(["text"] * rows),
                "term": pa.array([f"t{n * 7919 % 5003}" for n in range(rows)]),
                "tf": pa.array([1] * rows, pa.int32()),
            }
        )
        ids, numbers = pa.array([f"c{n}" for n in range(chunks)]), np.arange(chunks, dtype=np.int32)
        lengths = np.zeros((len(bm25.FIELDS), chunks), dtype=np.int32)
        tables = [table.slice(start, rows // 10) for start in range(0, rows, rows // 10)]
        runs = [
            posting_run(part, ids, numbers, pa.array([], pa.string()), lengths) for part in tables
        ]
        assert merged(runs, 1 << 14)[1].num_rows > rows / 2

    few, many = (seconds(lambda n=n: work(n)) for n in (300, 3_000))
    assert many < 30 * few
