"""What a search says of its own result."""

import numpy as np
import polars as pl
import pytest

from transforms.retrieval.labels import (
    Judged,
    evidence,
    hit_label,
    names_nothing,
    runtime_label,
    runtime_labels,
)
from transforms.retrieval.pipeline import RANKED
from transforms.settings.search import SearchSettings

SETTINGS = SearchSettings(label_pass=0.7, label_weak=0.5)


@pytest.mark.parametrize(
    ("hits", "label"),
    [
        (Judged([]), "NO_RESULTS"),
        (Judged([0.49, 0.3]), "NO_RESULTS"),
        (Judged([0.3, 0.5]), "WEAK"),
        # The first hit decides; turns around a turn lend it words.
        (Judged([0.7, 0.3]), "PASS"),
        (Judged([0.3, 0.9]), "WEAK"),
        (Judged([0.9], is_turn=True), "WEAK"),
        (Judged([1.3], is_turn=True), "PASS"),
        (Judged([0.9], meets=False), "WEAK"),
        # A model that judged knows better.
        (Judged([0.3], [5.0]), "PASS"),
        (Judged([0.9, 0.9], [4.9, 1.0]), "WEAK"),
        (Judged([0.3], [4.9]), "NO_RESULTS"),
    ],
)
def test_the_label_of_a_result(hits: Judged, label: str):
    assert runtime_label(hits, SETTINGS) == label


@pytest.mark.parametrize(
    ("rerank_score", "parts", "evidence_of_hit", "label"),
    [
        (5.0, None, 0.1, "PASS"),
        # SecondBrain: high similarity but a low score; candidates that fail the threshold.
        (4.9, None, 0.7, "HALLUCINATION_RISK"),
        (4.9, None, 0.69, "IRRELEVANT"),
        # Features and nobody are no judges.
        (0.1, [{"part": "fused", "value": 0.1}], 0.9, None),
        (None, None, 0.9, None),
        (float("nan"), None, 0.9, None),
    ],
)
def test_a_judge_labels_what_it_reads(
    rerank_score: float | None, parts: list | None, evidence_of_hit: float, label: str | None
):
    hit = {"rerank_score": rerank_score, "rerank_parts": parts, "evidence": evidence_of_hit}
    assert hit_label(hit, SETTINGS) == label


def test_each_query_is_labelled_and_scores_of_features_are_no_judgement():
    rows = [
        # By a model that refuses the hit, by features, by nobody, and of a hit unlike the query.
        {"query": 4, "evidence": 0.8, "rerank_score": 1.0, "rerank_parts": None},
        {
            "query": 5,
            "evidence": 0.8,
            "rerank_score": 1.0,
            "rerank_parts": [{"part": "fused", "value": 1.0}],
        },
        {"query": 6, "evidence": 0.8, "rerank_score": None, "rerank_parts": None},
        {"query": 7, "evidence": 0.5, "rerank_score": None, "rerank_parts": None},
    ]
    kinds = {name: RANKED[name] for name in rows[0]} | {"is_turn": pl.Boolean}
    ranked = pl.DataFrame([row | {"is_turn": False} for row in rows], schema=kinds)
    expected = ["WEAK", "PASS", "PASS", "WEAK", "NO_RESULTS"]
    assert [*runtime_labels(ranked, range(4, 9), SETTINGS, {})] == expected
    expected[2] = "WEAK"
    assert [*runtime_labels(ranked, range(4, 9), SETTINGS, {6})] == expected


def test_evidence_is_the_share_of_words_and_how_far_the_cosine_is_above_the_usual_one():
    cosine, usual = np.array([0.8, 0.3, 0.2]), np.array([0.6, 0.6, 0.0])
    assert evidence(np.array([0.1, 0.4, 0.4]), cosine, usual).round(6).tolist() == [0.6, 0.4, 0.6]


def test_stop_words_and_short_numbers_name_nothing():
    texts = ["the", "12 34 5", "the wal", "8080", "v2"]
    assert [names_nothing(text.split(), {"the"}) for text in texts] == [
        True,
        True,
        False,
        False,
        False,
    ]
