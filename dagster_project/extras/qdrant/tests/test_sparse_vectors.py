"""Sparse vectors whose products are BM25."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.extras.qdrant.transforms import sparse_vectors
from tests.transforms.retrieval.test_bm25 import segment
from transforms.retrieval import bm25
from transforms.retrieval.postings import GoneTerms, Postings, Slots
from transforms.settings.search import SearchSettings

TEXTS = st.lists(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=9), min_size=2, max_size=12
)


def product(vector: tuple[np.ndarray, np.ndarray], query: Mapping[int, float]) -> float:
    return sum(query.get(int(n), 0.0) * float(v) for n, v in zip(*vector, strict=True))


def split(texts: list[list[str]], cut: int) -> tuple[Postings, list[np.ndarray]]:
    """An index of two segments, whose second comes first by number, and the numbers of their terms."""
    parts = [texts[cut:], texts[:cut]]
    slots = np.concatenate([np.arange(cut) + len(texts) - cut, np.arange(len(texts) - cut)])
    index = Postings(
        [segment(part) for part in parts],
        Slots(slots.astype(np.int32), len(texts)),
        GoneTerms({}, np.zeros(0, dtype=np.int64)),
    )
    terms = [sorted({term for text in part for term in text}) for part in parts]
    return index, [np.array([ord(t) for t in of], dtype=np.uint32) for of in terms]


@given(TEXTS, st.data())
def test_the_product_with_a_query_is_its_bm25_score(texts: list[list[str]], data: st.DataObject):
    index, numbers = split(texts, data.draw(st.integers(1, len(texts) - 1)))
    settings = SearchSettings()
    weights = bm25.weighed(index, settings)
    scores = bm25.TermScores(list("abcdefg"), index, weights, None)
    query = {ord(t.term): t.idf for t in scores.lists}
    vectors = sparse_vectors.chunk_vectors(index, weights, numbers, np.arange(len(texts)))
    found = [product(vectors.of(row), query) for row in range(len(texts))]
    assert found == pytest.approx(scores.of(np.arange(len(texts))).tolist(), rel=1e-5)
    document = np.arange(len(texts)) // 2
    for by_chunk in (False, True):
        of_all = np.ones(len(texts), dtype=bool)
        wholes = bm25.weighed_wholes(index, settings, document, of_all, by_chunk=by_chunk)
        names, whole = sparse_vectors.whole_vectors(index, wholes, numbers, np.arange(len(texts)))
        query = {ord(t.term): t.weight_in(wholes) for t in scores.lists}
        found = [product(whole.of(row), query) for row in range(len(names))]
        assert found == pytest.approx(
            scores.of_wholes(np.arange(len(texts)), wholes)[1].tolist(), rel=1e-5
        )


def test_norms_of_another_mean_length_are_those_of_a_corpus_that_has_it():
    index, _ = split([["a"], ["b", "c"], ["a"] * 6], 1)
    weights = bm25.weighed(index, SearchSettings())
    assert weights.mean == 3
    other = sparse_vectors.with_mean(weights, 6.0)
    lengths = np.array([2, 6, 1])  # by slot
    assert other.norm.tolist() == pytest.approx(
        (bm25.K1 * (1 - bm25.B + bm25.B * lengths / 6)).tolist()
    )


def test_terms_with_one_number_are_told_apart_and_keep_the_numbers_that_they_have():
    one, other = "plumless", "buckeroo"  # have the same CRC-32
    assert sparse_vectors.term_number(one, {}) == sparse_vectors.term_number(other, {})
    moved = sparse_vectors.moved_terms([one, other, "a"], {})
    assert moved == {one: 1}
    assert sparse_vectors.moved_terms([one, other], {}, lambda term: term == one) == {other: 1}
    assert sparse_vectors.moved_terms([one, other], moved, lambda term: term == other) == moved
    assert sparse_vectors.moved_terms([one], moved) == moved
