"""Vectors as signs: all of them are looked at, few are compared."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.embedding.sign_codes import CodedVectors, CodeScores, hamming, sign_codes
from transforms.embedding.vectors import fixed_point, unit_length
from transforms.retrieval.fusion import ExactScores
from transforms.retrieval.postings import Slots


def unit_vectors(rows: int, dimensions: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimensions), dtype=np.float32)
    return unit_length(vectors)


def coded(vectors: np.ndarray, absent: tuple[int, ...] = ()) -> CodedVectors:
    return CodedVectors(
        [(fixed_point(vectors), sign_codes(vectors))],
        Slots(np.arange(len(vectors), dtype=np.int32), len(vectors)),
        np.array(absent, dtype=np.int64),
    )


@pytest.mark.parametrize("dimensions", [1, 63, 64, 65, 256, 384])
def test_the_distance_of_codes_counts_the_signs_that_differ(dimensions: int):
    vectors = unit_vectors(40_000 if dimensions == 65 else 50, dimensions)
    expected = ((vectors > 0) != (vectors[3] > 0)).sum(axis=1)
    codes = sign_codes(vectors)
    assert hamming(codes, codes[:, 3].copy()).tolist() == expected.tolist()


@examples(60)
@given(
    st.integers(1, 60),
    st.sampled_from([3, 64, 100]),
    st.integers(0, 9),
    st.none() | st.integers(0, 2**60 - 1),
)
def test_the_search_is_exact_where_all_allowed_vectors_are_compared(
    rows: int, dimensions: int, seed: int, allowed_bits: int | None
):
    vectors = unit_vectors(rows, dimensions, seed)
    query = unit_vectors(1, dimensions, seed + 1)[0]
    allowed = None
    if allowed_bits is not None:
        allowed = np.array([allowed_bits >> n & 1 for n in range(rows)], dtype=bool)
    found = CodeScores(query, coded(vectors), allowed, rows, rows)
    exact = ExactScores(vectors @ query, allowed)
    assert found.best(10).tolist() == exact.best(10).tolist()
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-6)


def test_a_filter_takes_no_hit_away():
    vectors = unit_vectors(5_000, 64)
    allowed = np.zeros(5_000, dtype=bool)
    allowed[::100] = True
    found = CodeScores(vectors[1], coded(vectors), allowed, 100, 60)
    assert len(found.best(30)) == 30
    assert allowed[found.best(50)].all()


def test_most_of_the_nearest_are_found_though_few_are_compared():
    vectors = unit_vectors(20_000, 256)
    near = vectors + unit_vectors(20_000, 256, 1)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    held = coded(vectors)
    hit = [int(CodeScores(near[n], held, None, 500, 100).best(1)[0] == n) for n in range(50)]
    assert sum(hit) >= 49


def test_a_row_without_a_vector_is_never_near_and_counts_as_the_farthest():
    vectors = unit_vectors(200, 64)
    vectors[[3, 7]] = 0
    found = CodeScores(vectors[5], coded(vectors, (3, 7)), None, 200, 200)
    assert not {3, 7} & set(found.best(200).tolist())
    assert found.of(np.array([3, 5, 7])).tolist() == pytest.approx(
        [found.low, 1, found.low], abs=1e-4
    )


@examples(60)
@given(st.integers(1, 40), st.integers(0, 9), st.integers(0, 40), st.integers(1, 9), st.randoms())
def test_vectors_in_segments_are_those_of_one(
    rows: int, seed: int, cut: int, rescored: int, random: Random
):
    """Some rows of the segments are of chunks that are gone, and the others are in any order."""
    vectors = unit_vectors(rows, 64, seed)
    stored = unit_vectors(rows + 5, 64, seed + 1)
    slots = np.array(random.sample(range(rows + 5), rows), dtype=np.int32)
    stored[slots] = vectors
    absent = (0,) if rows > 3 else ()
    parts = [part for part in np.split(stored, [min(cut, rows + 5)]) if len(part)]
    split = CodedVectors(
        [(fixed_point(p), sign_codes(p)) for p in parts],
        Slots(slots, rows + 5),
        np.array(absent, np.int64),
    )
    whole, query = coded(vectors, absent), unit_vectors(1, 64, seed + 2)
    assert np.array_equal(split.comparing(query)(), whole.comparing(query)())
    with ThreadPoolExecutor(2) as threads:
        compared, differing = (
            split.comparing(query, run=threads.map),
            split.differing(query[0], threads.map),
        )
        assert np.array_equal(compared(), whole.comparing(query)())
        assert np.array_equal(differing(), split.differing(query[0])())
    every = np.arange(rows)
    assert np.array_equal(split.of(every), whole.of(every))
    one, other = (CodeScores(query[0], held, None, 12, rescored) for held in (split, whole))
    assert (one.nearest.tolist(), one.low, one.high) == (
        other.nearest.tolist(),
        other.low,
        other.high,
    )
    assert one.of(every).tolist() == other.of(every).tolist()
