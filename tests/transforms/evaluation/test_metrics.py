"""Measures of lists and of blocks of context, worked by hand and against trec_eval."""

import random
import sys

import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import SettingsError
from transforms.evaluation.judgements import Judgements
from transforms.evaluation.metrics import (
    MEASURES,
    DocumentSpan,
    ShownPassage,
    block_measures,
    coverage,
    judged_parts,
    passage_score,
    query_measures,
)

TREC = {
    "nDCG@10": "ndcg_cut_10",
    "Recall@5": "recall_5",
    "Recall@10": "recall_10",
    "Recall@100": "recall_100",
    "Precision@5": "P_5",
    "Hit@10": "success_10",
}
ITEMS = [f"d{i:02}" for i in range(40)]


def values(frame: pl.DataFrame) -> dict[tuple[str, str], float]:
    return {(query, measure): value for query, measure, value in frame.iter_rows()}


@st.composite
def scored_runs(draw):
    """Runs with tied scores and judgements, some queries with neither, items that nobody judged."""
    seed = draw(st.integers(0, 2**32))
    chance = random.Random(seed)
    queries = [f"q{i}" for i in range(chance.randint(1, 5))]
    runs = {
        q: {d: float(chance.randint(0, 4)) for d in chance.sample(ITEMS, chance.randint(0, 30))}
        for q in queries
        if chance.random() < 0.85
    }
    judged = {
        q: {d: chance.randint(0, 3) for d in chance.sample(ITEMS, chance.randint(1, 12))}
        for q in queries
    }
    return runs, {q: j for q, j in judged.items() if any(j.values())}


def in_trec_order(scores: dict[str, float]) -> list[str]:
    """Items as trec_eval orders them: by score, ties by name from the end of the alphabet."""
    return sorted(sorted(scores, reverse=True), key=lambda d: -scores[d])


@given(scored_runs())
def test_measures_are_those_of_trec_eval_with_ties_and_missing_items(case):
    runs, judged = case
    found = values(query_measures({q: in_trec_order(s) for q, s in runs.items()}, judged))
    full = pytrec_eval.RelevanceEvaluator(judged, {*TREC.values(), "recip_rank"}).evaluate(
        {q: runs.get(q) or {"nothing": 0.0} for q in judged}
    )
    assert set(found) == {(q, m) for q in judged for m in MEASURES}
    for query in judged:
        for measure, name in TREC.items():
            assert found[query, measure] == pytest.approx(full[query][name], abs=1e-6)
        reciprocal = full[query]["recip_rank"]
        assert found[query, "MRR@10"] == pytest.approx(
            reciprocal if reciprocal >= 0.1 else 0.0, abs=1e-6
        )


@given(scored_runs(), st.integers(0, 10))
def test_an_item_that_comes_again_counts_at_its_first_place(case, seed: int):
    runs, judged = case
    chance = random.Random(seed)
    ordered = {q: in_trec_order(s) for q, s in runs.items()}
    doubled = {}
    for query, items in ordered.items():
        longer = []
        for item in items:
            longer += [item, *chance.sample(longer, min(len(longer), chance.randint(0, 2)))]
        doubled[query] = longer
    assert values(query_measures(doubled, judged)) == values(query_measures(ordered, judged))


def test_a_query_with_nothing_right_is_not_measured():
    assert query_measures({"q": ["a"]}, {"q": {"a": 0}}).is_empty()


@pytest.mark.parametrize(
    ("ranked", "expected"),
    [(["a", "b"], 0.5), (["a", "c"], 1.0), (["x"], 0.0), ([], 0.0), (["x"] * 10 + ["c"], 0.0)],
)
def test_coverage_counts_topics_and_not_items(ranked: list[str], expected: float):
    assert coverage({"one": {"a", "b"}, "two": {"c"}}, ranked) == expected


SPANS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(1, 15)).map(
        lambda t: DocumentSpan(t[0], t[1], t[1] + t[2])
    ),
    max_size=8,
)


@given(SPANS.filter(bool), SPANS, st.integers(1, 60))
def test_passages_are_scored_as_if_characters_were_counted(wanted, ranked, budget: int):
    got, room = set(), budget
    for span in ranked:
        end = min(span.end, span.start + room)
        room -= end - span.start
        got.update((span.document, at) for at in range(span.start, end))
    right = {(s.document, at) for s in wanted for at in range(s.start, s.end)}
    spent, shared = max(budget - room, 1), len(right & got)
    expected = (shared / len(right), shared / spent, shared / (len(right) + spent - shared))
    assert passage_score(wanted, ranked, budget) == pytest.approx(expected)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(SettingsError, match=r"weft\[evaluation\]"):
        query_measures({"q": ["a"]}, {"q": {"a": 1}})


EMPTY = pl.DataFrame()


def passage(chunks: str, tokens: int = 10) -> ShownPassage:
    return ShownPassage(frozenset(chunks), tokens)


@pytest.mark.parametrize(
    ("shown", "parts", "coverage", "precision"),
    [
        ([], ["ab"], 0.0, 0.0),
        ([passage("a")], ["ab", "c"], 0.5, 1.0),
        ([passage("ac")], ["ab", "c"], 1.0, 1.0),
        ([passage("a", 10), passage("x", 30)], ["ab"], 1.0, 0.25),
        ([passage("a")], ["a", ""], 0.5, 1.0),
    ],
)
def test_a_part_is_covered_by_any_of_its_chunks(
    shown: list[ShownPassage], parts: list[str], coverage: float, precision: float
):
    measures = block_measures(shown, [frozenset(part) for part in parts], 50, 200)
    assert measures == (coverage, precision, 0.25)


def test_parts_are_topics_and_what_the_index_cannot_hold_is_left_out():
    rows = [
        ("q", 0, "one", "found", ["a"], 2),
        ("q", 1, "one", "found", ["b"], 1),
        ("q", 2, "two", "missing", [], 1),
        ("q", 3, None, "found", ["c"], 1),
        ("q", 4, None, "found", ["x"], 0),
        ("r", 0, None, "unanswerable", [], 2),
    ]
    names = ["query_id", "entry", "topic", "status", "chunk_ids", "grade"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("chunk_ids").cast(pl.List(pl.String))
    )
    judged = Judgements(EMPTY, frame.drop("grade"), EMPTY)
    found = judged_parts(frame.select("query_id", "entry", "grade"), judged)
    assert found == {"q": [frozenset("ab"), frozenset(), frozenset("c")]}
