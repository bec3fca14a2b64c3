"""Merged postings are those of a sort of all postings, whatever goes, comes and gets another number."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.retrieval.merged_postings import GONE, AddedTerms, SortedPostings, merged_postings

TERMS = "abcdefgh"
ROWS = st.dictionaries(st.tuples(st.sampled_from(TERMS), st.integers(0, 9)), st.integers(0, 5), max_size=40)


def arrays(rows: dict[tuple[str, int], int]) -> tuple[list[str], SortedPostings]:
    """Postings by term and chunk as arrays, with the terms."""
    terms = sorted({term for term, _ in rows})
    ordered = sorted(rows)
    starts = np.searchsorted([terms.index(t) for t, _ in ordered], range(len(terms) + 1))
    chunks = np.array([c for _, c in ordered], dtype=np.int32)
    return terms, SortedPostings(
        starts.astype(np.int64), chunks, np.array([rows[k] for k in ordered], np.uint16)
    )


@given(before=ROWS, gone=st.sets(st.integers(0, 9)), came=ROWS)
def test_merged_postings_are_those_of_a_sort(
    before: dict[tuple[str, int], int], gone: set[int], came: dict[tuple[str, int], int]
):
    chunk_of = np.full(10, GONE, dtype=np.int32)
    staying = [n for n in range(10) if n not in gone]
    chunk_of[staying] = [2 * i + 1 for i in range(len(staying))]  # odd numbers are taken, even ones free
    added = {(term, 2 * chunk): code for (term, chunk), code in came.items()}
    wanted = added | {(t, int(chunk_of[c])): code for (t, c), code in before.items() if c not in gone}
    terms, held = arrays(before)
    new_terms, new = arrays(added)
    places = np.searchsorted(terms, new_terms) if terms else np.zeros(len(new_terms), dtype=np.int64)
    are_new = np.array([term not in terms for term in new_terms], dtype=bool)
    change = AddedTerms(places, are_new, np.diff(new.starts))
    made, is_empty = merged_postings(held, chunk_of, change, new.chunks, new.codes)
    expected_terms, expected = arrays(wanted)
    left = {t for t, empty in zip(terms, is_empty, strict=True) if not empty} | set(new_terms)
    assert sorted(left) == expected_terms
    for one, other in zip(made, expected, strict=True):
        assert one.tolist() == other.tolist()
