"""BM25 over the inverted index."""

import math
import random
from collections import Counter
from collections.abc import Iterator

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.retrieval import bm25
from transforms.retrieval.bm25 import FIELDS, TermScores, terms_by_query, weighed, weighed_wholes
from transforms.retrieval.fusion import ExactScores
from transforms.retrieval.postings import GoneTerms, Postings, Slots, TermSegment
from transforms.settings.search import SearchSettings

WORDS = [f"w{n}" for n in range(40)]
ONE_FIELD = SearchSettings(title_weight=0, quote_weight=0)


@pytest.fixture(
    scope="module", autouse=True, params=[0, bm25._ALL_AT_ONCE], ids=["looked up", "all at once"]
)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs on both ways of scoring."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bm25, "_ALL_AT_ONCE", request.param)
        yield


def postings(texts: list[list[str]], field: str = "text") -> Postings:
    return Postings(
        [segment(texts, field)], Slots(np.arange(len(texts), dtype=np.int32), len(texts))
    )


def segment(texts: list[list[str]], field: str = "text") -> TermSegment:
    counts = [Counter(t) for t in texts]
    terms = sorted({term for count in counts for term in count})
    rows = [(n, count[term]) for term in terms for n, count in enumerate(counts) if term in count]
    starts = np.cumsum([0, *(sum(term in count for count in counts) for term in terms)])
    frequencies = np.zeros((len(rows), len(FIELDS)), dtype=np.int32)
    frequencies[:, FIELDS.index(field)] = [tf for _, tf in rows]
    lengths = np.zeros((len(FIELDS), len(texts)), dtype=np.int32)
    lengths[FIELDS.index(field)] = [len(t) for t in texts]
    chunks = np.array([n for n, _ in rows], dtype=np.int32)
    numbers = {term: n for n, term in enumerate(terms)}
    return TermSegment(numbers, starts, chunks, np.arange(len(rows)), frequencies, lengths)


def bm25_scores(
    query_terms: pa.Table, count: int, index: Postings, settings: SearchSettings
) -> np.ndarray:
    """The scores of all chunks, computed term by term over all of its postings: shape (queries,
    chunks).
    """
    scores = np.zeros((count, index.chunk_count), dtype=np.float32)
    weights = weighed(index, settings)
    for query, words in enumerate(terms_by_query(query_terms, count)):
        (whole,) = index.segments
        for number, term in sorted((whole.numbers.get(w), w) for w in words if index.df(w)):
            df = index.df(term)
            rows = slice(whole.starts[number], whole.starts[number + 1])
            frequency, norm = weights.frequency[whole.codes[rows]], weights.norm[whole.chunks[rows]]
            idf = np.float32(math.log(1 + (index.chunk_count - df + 0.5) / (df + 0.5)))
            scores[query][whole.chunks[rows]] += idf * frequency / (norm + frequency)
    return scores


def queries(*asked: list[str]) -> pa.Table:
    pairs = [(n, term) for n, terms in enumerate(asked) for term in sorted(set(terms))]
    return pa.table(
        {
            "query": pa.array([p[0] for p in pairs], pa.int32()),
            "term": pa.array([p[1] for p in pairs], pa.string()),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_bm25s(seed: int):
    chance = random.Random(seed)
    texts = [
        chance.choices(WORDS, weights=range(1, 41), k=chance.randint(1, 60)) for _ in range(200)
    ]
    asked = [chance.sample(WORDS, 4) for _ in range(10)]
    reference = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    reference.index(texts, show_progress=False)
    expected = np.array([reference.get_scores(sorted(set(q))) for q in asked])
    scores = bm25_scores(queries(*asked), len(asked), postings(texts), ONE_FIELD)
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_mail_as_a_whole_scores_as_one_text_of_its_chunks():
    chance = random.Random(5)
    texts = [
        chance.choices(WORDS, weights=range(1, 41), k=chance.randint(1, 60)) for _ in range(60)
    ]
    document = np.arange(60, dtype=np.int32) // 3
    joined = [sum(texts[n : n + 3], []) for n in range(0, 60, 3)]
    asked = chance.sample(WORDS, 4)
    expected = bm25_scores(queries(asked), 1, postings(joined), ONE_FIELD)[0]
    index = postings(texts)
    wholes = weighed_wholes(index, ONE_FIELD, document, np.ones(60, dtype=bool), by_chunk=False)
    words = TermScores(asked, index, weighed(index, ONE_FIELD), None)
    numbers, scores = words.of_wholes(np.arange(30, 60, dtype=np.int32), wholes)
    assert numbers.tolist() == list(range(10, 20))
    np.testing.assert_allclose(scores, expected[10:], atol=1e-4)


@pytest.mark.parametrize("allowed", [None, [True, False, True, True]], ids=["all", "some"])
def test_chunks_without_words_change_no_score(allowed: list[bool] | None):
    texts = [["fox", "dog"], ["owl"], ["fox"]]
    scores = []
    for more in ([], [[]]):
        index = postings([*texts, *more])
        mask = None if allowed is None else np.array(allowed[: 3 + len(more)])
        words = TermScores(["fox"], index, weighed(index, SearchSettings()), mask)
        scores.append([*words.of(np.arange(3)), words.low, words.high, words.most, *words.best(4)])
    assert scores[0] == scores[1]


@pytest.mark.parametrize(("field", "is_found"), [("rest", False), ("text", True)])
def test_what_is_in_no_chunk_is_found_in_whole_mails_alone(field: str, is_found: bool):
    index = postings([["fox"], ["dog"], ["owl"]], field)
    words = TermScores(["fox"], index, weighed(index, SearchSettings()), None)
    assert words.best(3).tolist() == [0] * is_found
    assert words.support(np.array([0])).tolist() == [float(is_found)]
    wholes = weighed_wholes(
        index,
        SearchSettings(),
        np.arange(3, dtype=np.int32),
        np.ones(3, dtype=bool),
        by_chunk=False,
    )
    assert words.of_wholes(np.arange(3, dtype=np.int32), wholes)[1].argmax() == 0


@pytest.mark.parametrize(
    ("field", "setting"),
    [("title", "title_weight"), ("quote", "quote_weight"), ("context", "quote_weight")],
)
def test_an_occurrence_counts_by_the_weight_of_its_field(field: str, setting: str):
    made = postings([["fox", "fox", "dog"], ["dog"]], field)
    off = SearchSettings().model_copy(update={setting: 0.0})
    on = SearchSettings().model_copy(update={setting: 1.0})
    assert bm25_scores(queries(["fox"]), 1, made, off).max() == 0
    assert bm25_scores(queries(["fox"]), 1, made, on)[0, 0] > 0


def test_an_empty_index_and_an_empty_query_score_nothing():
    assert bm25_scores(queries(["fox"]), 1, postings([]), ONE_FIELD).shape == (1, 0)
    assert bm25_scores(queries([]), 1, postings([["fox"]]), ONE_FIELD).tolist() == [[0.0]]


@examples(60)
@given(
    st.lists(st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=8), min_size=1, max_size=40),
    st.sets(st.sampled_from(WORDS[:8]), max_size=6),
    st.integers(1, 12),
    st.none() | st.integers(0, 2**40 - 1),
)
def test_scores_by_term_are_those_of_all_chunks(
    texts: list[list[str]], asked: set[str], k: int, allowed_bits: int | None
):
    held = postings(texts)
    allowed = None
    if allowed_bits is not None:
        allowed = np.array([allowed_bits >> n & 1 for n in range(len(texts))], dtype=bool)
    every = bm25_scores(queries(sorted(asked)), 1, held, ONE_FIELD)[0]
    expected = ExactScores(every, allowed, least=0)
    found = TermScores(sorted(asked), held, weighed(held, ONE_FIELD), allowed)
    assert found.best(k).tolist() == expected.best(k).tolist()
    assert (found.low, found.high) == (expected.low, max(expected.high, 0.0))
    numbers = np.flatnonzero(np.ones(len(texts), dtype=bool) if allowed is None else allowed)[::-1]
    assert found.of(numbers).tolist() == expected.of(numbers).tolist()


def test_common_terms_are_looked_up_only_for_what_rare_ones_found():
    chance = random.Random(0)
    texts = [
        ["common"] * chance.randint(1, 3) + (["rare"] if n % 500 == 0 else [])
        for n in range(20_000)
    ]
    held = postings(texts)
    found = TermScores(["common", "rare"], held, weighed(held, ONE_FIELD), None)
    assert len(found._near(10)) < 100
    every = bm25_scores(queries(["common", "rare"]), 1, held, ONE_FIELD)[0]
    assert found.best(10).tolist() == ExactScores(every, None, least=0).best(10).tolist()


def test_support_is_the_share_of_the_words_that_stand_in_a_chunk_whatever_its_length():
    texts = [["rare", *["the"] * 500], ["the", "fox"], ["rare", "fox"], ["dog"], ["the"]]
    held = postings(texts)
    scores = TermScores(["fox", "rare", "unknown"], held, weighed(held, ONE_FIELD), None)
    found = scores.support(np.array([2, 0, 3]))
    known, unknown = (math.log(1 + (5 - df + 0.5) / (df + 0.5)) for df in (2, 0))
    share = known / (2 * known + unknown)
    assert found == pytest.approx([2 * share, share, 0])
    assert TermScores([], held, weighed(held, ONE_FIELD), None).support(np.array([1])).tolist() == [
        0
    ]
    assert (scores.of(np.arange(5)) <= scores.most).all()


@examples(200)
@given(
    st.lists(st.lists(st.sampled_from(WORDS[:9]), max_size=6), min_size=1, max_size=30),
    st.lists(st.sampled_from(WORDS[:12]), max_size=5, unique=True),
    st.integers(0, 35),
    st.integers(1, 8),
    st.none() | st.integers(0, 2**30 - 1),
    st.randoms(),
)
def test_scores_over_segments_are_those_over_one(
    texts: list[list[str]],
    words: list[str],
    cut: int,
    k: int,
    bits: int | None,
    shuffled: random.Random,
):
    """Chunks are in any slots of two segments, others of which are of chunks that are gone."""
    slots = np.array(shuffled.sample(range(len(texts) + 5), len(texts)), dtype=np.int32)
    stored = [[shuffled.choice(WORDS[:9])] for _ in range(len(texts) + 5)]
    gone = Counter(stored[slot][0] for slot in set(range(len(stored))) - set(slots.tolist()))
    for slot, text in zip(slots.tolist(), texts, strict=True):
        stored[slot] = text
    numbers = {term: number for number, term in enumerate(sorted(gone))}
    dead = GoneTerms(numbers, np.array([gone[term] for term in numbers]))
    split = Postings(
        [segment(stored[:cut]), segment(stored[cut:])], Slots(slots, len(stored)), dead
    )
    allowed = (
        None if bits is None else np.array([bits >> n & 1 for n in range(len(texts))], dtype=bool)
    )
    every = np.arange(len(texts))
    found = []
    for index in (split, postings(texts)):
        scores = TermScores(words, index, weighed(index, ONE_FIELD), allowed)
        best = [
            scores.best(k).tolist(),
            scores.best(len(texts)).tolist(),
            scores.low,
            scores.high,
            scores.most,
        ]
        found.append((best, scores.of(every).tolist(), scores.support(every).tolist()))
    assert found[0] == found[1]
