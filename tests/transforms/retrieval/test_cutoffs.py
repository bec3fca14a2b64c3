"""Where a list of scores ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hit_tables import hits_of
from transforms.retrieval.cutoffs import before_elbow, elbow
from transforms.retrieval.hits import place
from transforms.settings.search import SearchSettings


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([8, 7.5, 7, 3.2, 3, 2.8, 0.9], 3),
        ([], 0),
        ([5], 1),
        ([0], 1),
        ([5, 2], 1),
        ([10, 5, 2.5], 3),
        ([5, 4, 0, 3], 2),
        ([0, 5, 4], 0),
        ([5, 4, -1], 2),
        ([1.0] * 30, 20),
    ],
)
def test_a_list_ends_before_the_first_score_below_half_of_the_one_above(
    scores: list[float], kept: int
):
    assert elbow(scores, 0.5, 20) == kept


@given(
    st.lists(st.floats(-1, 10, allow_nan=False), max_size=40).map(
        lambda s: sorted(s, reverse=True)
    ),
    st.floats(0.01, 1),
    st.integers(1, 50),
)
def test_no_step_before_the_end_is_steep_and_the_first_behind_it_is(
    scores: list[float], cutoff: float, maximum: int
):
    kept = elbow(scores, cutoff, maximum)
    assert kept <= min(len(scores), maximum)
    pairs = list(zip(scores, scores[1:], strict=False))
    assert all(b > 0 and b >= cutoff * a for a, b in pairs[: max(kept - 1, 0)])
    if 0 < kept < min(len(scores), maximum):
        above, behind = pairs[kept - 1]
        assert behind <= 0 or behind < cutoff * above


def test_each_query_has_an_elbow_of_its_own_and_what_is_dropped_says_why():
    hits = hits_of({0: [4, 3, 1], 1: [5, 1], 2: [2, 2]})
    kept, dropped = before_elbow(hits, SearchSettings(cutoff_ratio=0.5))
    assert kept.select("query", place()).rows() == [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2)]
    assert dropped.select("query", "reason").rows() == [
        (0, "behind the elbow after 2"),
        (1, "behind the elbow after 1"),
    ]
    kept, _ = before_elbow(hits, SearchSettings(cutoff_ratio=0.1, max_results=1))
    assert kept.select("query", place()).rows() == [(0, 1), (1, 1), (2, 1)]
