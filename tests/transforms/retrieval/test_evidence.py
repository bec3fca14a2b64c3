"""Which passages of a thread answer a query together."""

import pytest

from transforms.retrieval.diversity import MOST_EVIDENCE, thread_evidence

CASES = [
    ("nothing was found", [], [], []),
    ("one passage shows all", [2.0, 1.9], ["ab", "a"], [0]),
    ("another adds a word", [2.0, 1.9], ["a", "b"], [0, 1]),
    ("the one that adds most goes first", [2.0, 1.9, 1.8], ["a", "b", "bc"], [0, 2]),
    ("of equal additions the better scored", [2.0, 1.9, 1.8], ["a", "b", "b"], [0, 1]),
    ("far behind the best is no evidence", [2.0, 0.9], ["a", "b"], [0]),
    ("three at most", [2.0, 2.0, 2.0, 2.0], ["a", "b", "c", "d"], [0, 1, 2]),
]


@pytest.mark.parametrize(
    ("scores", "words", "chosen"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_passages_are_chosen_by_what_they_add(
    scores: list[float], words: list[str], chosen: list[int]
):
    assert thread_evidence(scores, [set(text) for text in words]) == chosen
    assert len(chosen) <= MOST_EVIDENCE
