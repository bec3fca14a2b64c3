"""Terms of the first candidates join a query whose words no chunk holds, and no other."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.retrieval.test_bm25 import postings
from transforms.retrieval.bm25 import TermScores, idf, weighed
from transforms.retrieval.feedback import applies, expanded_terms, worthiest
from transforms.settings.search import SearchSettings

WANTED = SearchSettings(feedback_weight=0.3)


@pytest.mark.parametrize(
    ("best", "most", "changed", "expected"),
    [
        (3.4, 10, {}, True),
        (3.5, 10, {}, False),
        (0, 10, {}, False),
        (3.4, 10, {"feedback_weight": 0}, False),
        (3.4, 10, {"fusion": "rrf"}, False),
    ],
)
def test_terms_are_wanted_where_some_words_are_found_and_no_chunk_holds_most(best, most, changed, expected):
    assert applies(best, most, WANTED.model_copy(update=changed)) is expected


def test_what_the_first_candidates_share_finds_what_says_it_in_other_words():
    texts = [
        ["vacuum", "autovacuum", "daemon", "daemon"],
        ["vacuum", "autovacuum", "the"],
        ["autovacuum", "daemon", "the"],
        ["the", "planner"],
    ] + [["the"]] * 4
    held = postings(texts)
    rows = [(n, "text", t, texts[n].count(t)) for n in (0, 1) for t in sorted(set(texts[n]))]
    counted = pl.DataFrame(rows, schema=["chunk_no", "field", "term", "tf"], orient="row")
    weights = weighed(held, WANTED)
    found = expanded_terms(["nowhere", "vacuum"], counted, held, weights, WANTED, most=2)
    assert found.keys() == {"vacuum", "autovacuum"}
    assert sum(found.values()) == pytest.approx(1), (
        "the one known term counts as much with those that are added"
    )
    alone = TermScores(["vacuum"], held, weights, None).best(9).tolist()
    wide = TermScores(found, held, weights, None).best(9).tolist()
    assert (alone, wide) == ([1, 0], [1, 0, 2])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 8))
def test_the_worthiest_terms_are_those_of_looking_all_up(shares: list[int], count: int):
    texts = [[f"w{n}" for n in range(len(shares)) if (chunk + n) % (n % 5 + 1) == 0] for chunk in range(30)]
    held = postings(texts)
    frame = pl.DataFrame({"term": [f"w{n}" for n in range(len(shares))], "share": [s / 10 for s in shares]})
    every = [(s * idf(held.df(t), held.chunk_count), t) for t, s in frame.iter_rows() if held.df(t) >= 2]
    expected = sorted(every, key=lambda w: (-w[0], w[1]))[:count]
    assert worthiest(frame.sort("share", "term", descending=[True, False]), held, count) == expected
