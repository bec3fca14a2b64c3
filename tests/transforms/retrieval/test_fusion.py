"""Scores to ranked hits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.transforms.retrieval.test_bm25 import postings
from transforms.retrieval.bm25 import TermScores, weighed
from transforms.retrieval.fusion import (
    FUSED,
    ExactScores,
    Fusion,
    Places,
    WholeScores,
    fused_candidates,
    is_diagnostic,
    lexical_weight,
)
from transforms.retrieval.hits import place
from transforms.retrieval.pipeline import finishing, pooling, started, through
from transforms.retrieval.small_tables import top_k
from transforms.settings.search import SearchSettings

ALONE = SearchSettings(thread_weight=0)


@pytest.mark.parametrize(
    ("scores", "k", "expected"),
    [
        ([1, 3, 2], 2, [1, 2]),
        ([1, 1, 1], 2, [0, 1]),
        ([0, 2, 1, 2, 1], 3, [1, 3, 2]),
        ([1, -np.inf, np.nan, np.inf], 9, [0]),
        ([-np.inf], 3, []),
        ([], 3, []),
    ],
)
def test_the_best_come_first_and_ties_by_position(scores: list[float], k: int, expected: list[int]):
    assert top_k(np.array(scores, dtype=np.float32), k).tolist() == expected


@given(st.lists(st.integers(-3, 3) | st.just(-np.inf), max_size=30), st.integers(1, 12))
def test_top_k_is_the_start_of_the_full_order(scores: list[float], k: int):
    full = sorted(
        (i for i, s in enumerate(scores) if np.isfinite(s)), key=lambda i: (-scores[i], i)
    )
    assert top_k(np.array(scores, dtype=np.float64), k).tolist() == full[:k]


def hits(
    lexical, vector, messages=None, threads=None, allowed=None, limit=10, settings=ALONE, logs=None
):
    count = len(lexical)
    places = Places(
        np.array(messages if messages is not None else range(count), dtype=np.int32),
        np.array(threads if threads is not None else range(count), dtype=np.int32),
        np.ones(count, dtype=bool),
        np.zeros(count, dtype=bool),
    )
    mask = None if allowed is None else np.array(allowed)
    fusion = Fusion(
        ExactScores(np.array(lexical, dtype=np.float32), mask, least=0),
        ExactScores(np.array(vector, dtype=np.float32), mask),
        settings,
        None if logs is None else np.array(logs),
    )
    fused = fused_candidates(0, fusion, mask, places)
    assert dict(fused.schema) == FUSED
    settings = settings.model_copy(update={"limit": limit, "rerank": "off"})
    stages = [*pooling(settings), *finishing(settings)]
    return through(started(fused), stages, settings).hits.with_columns(rank=place())


def test_logs_count_less_unless_they_are_asked_for():
    settings = SearchSettings(thread_weight=0, lexical_weight=1)
    scores = ([0, 3, 4], [0, 0, 0])
    assert hits(*scores, settings=settings)["chunk_no"].to_list()[:2] == [2, 1]
    assert hits(*scores, settings=settings, logs=[False, False, True])["chunk_no"].to_list()[
        :2
    ] == [1, 2]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("FATAL: could not open relation", True),
        ("kernel BUG at fs/erofs/zdata.c", True),
        ("make fails: undefined reference to lz4", True),
        ("Traceback in plpython", True),
        ("read of 0xdeadbeef", True),
        ("NullPointerException on connect", True),
        ("how does error handling work in plpgsql", False),
        ("write-ahead logging and logical replication", False),
        ("add a catalog for privileges", False),
    ],
)
def test_a_query_is_diagnostic_if_a_program_could_have_said_it(query: str, expected: bool):
    assert is_diagnostic(query) is expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lexical_weight": 0.75}, {0: 0.75, 1: 0.625, 2: 0.125}),
        ({"fusion": "rrf"}, {0: 1 / 61 + 1 / 63, 1: 1 / 62 + 1 / 61, 2: 1 / 62}),
    ],
    ids=["blend", "ranks"],
)
def test_both_scores_are_scaled_over_all_chunks_or_their_ranks_add_up(settings, expected):
    found = hits([4, 2, 0], [0.0, 1.0, 0.5], settings=SearchSettings(thread_weight=0, **settings))
    assert dict(found.select("chunk_no", "fused_score").iter_rows()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pg_stat_activity shows no query", 0.9),
        ("where is GetPreparedTransactionList called?", 0.9),
        ("Delay fsync() when other backends commit", 0.9),
        ("kernel oops in fs/erofs/zdata.c", 0.9),
        ("fixed by 7a48e3f1", 0.9),
        ("what does --no-owner do?", 0.9),
        ('the message "could not open relation"', 0.9),
        ("what does `vuln` do?", 0.9),
        ("How do I restore a backup", 0.5),
        ("Does it rain?", 0.5),
        ("warum ist der Speicher gesperrt", 0.5),
        ("free-behind capability for large scans", 0.7),
        ("DROP COLUMN and its indexes", 0.7),
        ("and/or, a word", 0.7),
    ],
)
def test_words_weigh_by_what_a_query_is(query: str, expected: float):
    by_query = {"lexical_weight_symbols": 0.9, "lexical_weight_questions": 0.5}
    assert lexical_weight(query, SearchSettings(**by_query)) == expected
    assert lexical_weight(query, SearchSettings()) == 0.7
    of_phrase = lexical_weight("Big Corp", SearchSettings(**by_query), demands_text=True)
    assert of_phrase == 0.9


def test_a_mail_receives_the_share_of_the_best_of_its_thread():
    settings = SearchSettings(thread_weight=0.5, lexical_weight=1)
    found = hits([10, 4, 5], [0, 0, 0], threads=[0, 0, 1], settings=settings)
    assert found["chunk_no"].to_list() == [0, 1, 2]
    assert found["thread_score"].to_list() == pytest.approx([0.5, 0.5, 1 / 12])


@examples(200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.sampled_from(["blend", "rrf"]),
    st.floats(0, 1.5),
    st.booleans(),
)
def test_leaving_what_cannot_be_among_the_best_changes_no_hit(
    seed: int, limit: int, fusion: str, share: float, filtered: bool
):
    chance = np.random.default_rng(seed)
    count = int(chance.integers(20, 120))
    given = SearchSettings(
        thread_weight=share,
        fusion=fusion,
        candidates_lexical=4,
        candidates_vector=4,
        pool=limit,
        limit=limit,
    )
    scores = (
        np.where(chance.random(count) < 0.5, 0, chance.integers(0, 20, count)),
        chance.random(count),
    )
    told = {
        "messages": np.sort(chance.integers(0, count // 2, count)),
        "threads": np.sort(chance.integers(0, 6, count)),
        "allowed": (chance.random(count) < 0.8).tolist() if filtered else None,
        "logs": chance.random(count) < 0.2,
    }
    # With a threshold nothing is left, and this one lets everything through.
    every = given.model_copy(update={"similarity_threshold": -1.0})
    expected = hits(*scores, **told, limit=limit, settings=every)
    assert hits(*scores, **told, limit=limit, settings=given).equals(expected)


def test_long_threads_are_compared_in_full_only_where_they_could_be_among_the_best():
    chance = np.random.default_rng(0)
    lexical = np.append(chance.random(10_000), [5.0] * 60)
    fusion = Fusion(
        ExactScores(lexical, None),
        ExactScores(chance.random(10_060), None),
        SearchSettings(pool=10, limit=5),
    )
    own = np.arange(10_060, dtype=np.int32)
    made = fused_candidates(
        0, fusion, None, Places(own, np.zeros(10_060, dtype=np.int32), own >= 0, own < 0)
    )
    assert len(made) < 200
    assert set(fusion.chunks.tolist()) <= set(made["chunk_no"].to_list())


def test_what_a_filter_leaves_out_is_no_hit_and_sets_no_scale():
    found = hits([100, 2, 1], [1, 0.5, 0.25], allowed=[False, True, True])
    assert found["chunk_no"].to_list() == [1, 2]
    assert found["fused_score"].to_list() == pytest.approx([1, 0])
    assert hits([1, 2], [1, 2], allowed=[False, False]).is_empty()


def test_a_chunk_that_only_one_list_holds_has_no_rank_in_the_other():
    found = hits([0, 5], [0.9, 0.1], settings=SearchSettings(thread_weight=0, candidates_vector=1))
    ranks = {
        r["chunk_no"]: (r["lexical_rank"], r["vector_rank"]) for r in found.iter_rows(named=True)
    }
    assert ranks == {0: (None, 1), 1: (1, None)}


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12
    ),
    st.integers(1, 9),
)
def test_a_shorter_list_of_hits_is_the_start_of_a_longer_one(
    rows: list[tuple[int, int, int]], limit: int
):
    lexical, vector, messages = zip(*rows, strict=True)
    whole = hits(lexical, vector, messages=messages, threads=messages, settings=SearchSettings())
    short = hits(
        lexical, vector, messages=messages, threads=messages, limit=limit, settings=SearchSettings()
    )
    assert short.equals(whole.head(limit))
    assert whole["score"].is_sorted(descending=True)


@pytest.mark.parametrize(
    ("lexical", "vector", "score"),
    [([2, 3], [0.5, 0.4], 1.0), ([0, 3], [0.5, 0.4], 0.3), ([2, 3], [-0.5, 0.4], 0.7)],
)
def test_the_one_hit_that_a_filter_leaves_is_worth_what_it_has(lexical, vector, score):
    found = hits(
        lexical,
        vector,
        allowed=[True, False],
        settings=ALONE.model_copy(update={"cutoff_ratio": 0.5}),
    )
    assert found["score"].to_list() == pytest.approx([score])


@pytest.mark.parametrize("is_mail", [True, False], ids=["mail", "page"])
def test_a_mail_or_page_that_says_it_in_two_places_is_found_by_the_whole_of_it(is_mail: bool):
    index = postings([["plan", "hash"], ["join", "cost"], ["hash"], ["cost"], ["dog"]])
    alone, mails = np.arange(5, dtype=np.int32), np.full(5, is_mail)
    places = Places(np.array([0, 0, 1, 2, 3], dtype=np.int32), alone, mails, ~mails)
    words = TermScores(["hash", "cost", "bird"], index, weighed(index, ALONE), None)
    chunks, alike = alone[:4], ExactScores(np.zeros(5), None)
    of_mails, of_pages = places.weighed(index, ALONE)
    around = places.mails_around(chunks), places.pages_of(chunks[[0, 2, 3]])
    assert [len(of_kind) for of_kind in around] == ([4, 0] if is_mail else [0, 4])
    wholes = (
        WholeScores(words, of_mails, places.document, places.is_mail, around[0]),
        WholeScores(words, of_pages, places.document, places.is_page, around[1]),
    )
    for share, first in ((0.0, 2), (1.0, 0)):
        settings = ALONE.model_copy(update={"mail_weight": share, "page_weight": share})
        fusion = Fusion(words, alike, settings, None, lambda found: wholes)
        added = fusion.words(chunks, words.of(chunks))
        assert fusion.of(chunks, added, alike.of(chunks)).argmax() == first
    whole = wholes[not is_mail].blended(chunks, words.of(chunks), 1.0)
    assert whole[0] == whole[1] == words.of(chunks).max() > whole[2]
