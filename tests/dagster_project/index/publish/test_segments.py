"""Segments of the arrays: what is merged says what was there, and no chunk is written anew often."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.index.files.posting_arrays import PostingArrays, padded
from dagster_project.index.files.segments import (
    first_merged,
    merge,
    read_terms,
    write_terms,
)
from tests.cases import examples
from transforms.embedding.sign_codes import sign_codes
from transforms.retrieval import bm25

TERMS = ["a", "ä", "b", "c", "zz"]
Rows = dict[tuple[str, int], int]
"""How often a term stands in a chunk of a segment."""
ROWS = st.dictionaries(
    st.tuples(st.sampled_from(TERMS), st.integers(0, 5)), st.integers(1, 4), max_size=20
)
STAYS = st.lists(st.booleans(), min_size=6, max_size=6)


def stored(folder: Path, rows: Rows, first: int) -> Path:
    """A segment of six chunks, each of whose vector and length is its number behind `first`."""
    folder.mkdir()
    ordered = sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    terms = sorted({term for term, _ in ordered}, key=str.encode)
    write_terms(folder, pa.chunked_array([pa.array(terms, pa.string())]))
    np.save(
        folder / "starts.npy",
        np.cumsum([0, *(sum(t == term for t, _ in ordered) for term in terms)]),
    )
    counts = np.zeros((len(ordered), len(bm25.FIELDS)), dtype=np.uint16)
    counts[:, 1] = [rows[row] for row in ordered]
    with PostingArrays(folder) as arrays:
        arrays.add(np.array([chunk for _, chunk in ordered], dtype=np.int32), padded(counts))
    numbers = np.arange(first, first + 6)
    np.save(folder / "lengths.npy", np.tile(numbers, (len(bm25.FIELDS), 1)))
    vectors = np.repeat(numbers[:, None] - 3, 4, axis=1).astype(np.int16)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "vector_codes.npy", sign_codes(vectors))
    return folder


def read(folder: Path) -> Rows:
    starts, chunks, codes, counts = (
        np.load(folder / f"{n}.npy") for n in ("starts", "chunks", "codes", "counts")
    )
    of_row = np.repeat(read_terms(folder).to_list(), np.diff(starts))
    return {
        (str(t), int(c)): int(counts[k, 1]) for t, c, k in zip(of_row, chunks, codes, strict=True)
    }


@examples(60)
@given(st.lists(st.tuples(ROWS, STAYS), min_size=1, max_size=4))
def test_merged_segments_hold_what_stays_and_tell_what_does_not(
    segments: list[tuple[Rows, list[bool]]],
):
    with tempfile.TemporaryDirectory() as folder:
        made = [stored(Path(folder) / str(n), rows, 6 * n) for n, (rows, _) in enumerate(segments)]
        stays = [np.array(mask) for _, mask in segments]
        lost = merge(made, stays, Path(folder) / "merged")
        place = np.cumsum(np.concatenate(stays)) - 1
        expected = {
            (term, int(place[6 * n + chunk])): count
            for n, (rows, mask) in enumerate(segments)
            for (term, chunk), count in rows.items()
            if mask[chunk]
        }
        gone = [term for rows, mask in segments for term, chunk in rows if not mask[chunk]]
        assert read(Path(folder) / "merged") == expected
        assert dict(lost.iter_rows()) == {term: gone.count(term) for term in gone}
        numbers = np.flatnonzero(np.concatenate(stays))
        assert np.load(Path(folder) / "merged/lengths.npy")[3].tolist() == numbers.tolist()
        vectors = np.load(Path(folder) / "merged/vectors.npy")
        assert vectors[:, 0].tolist() == [number - 3 for number in numbers]
        assert np.array_equal(
            np.load(Path(folder) / "merged/vector_codes.npy"), sign_codes(vectors)
        )


def test_a_chunk_is_written_anew_a_few_times_and_segments_stay_few():
    sizes, written, most = [1_000_000], 0, 0
    for _ in range(300):
        sizes.append(1_000)
        first = first_merged(sizes)
        sizes[first:] = [sum(sizes[first:])]
        written, most = written + sizes[-1], max(most, len(sizes))
    assert most <= 6
    assert written < 300 * 1_000 * 20 + 1_300_000
