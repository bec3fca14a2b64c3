"""What a search says of its own result."""

import numpy as np
import polars as pl
import pytest

from transforms.retrieval.labels import evidence, names_nothing, runtime_label, runtime_labels
from transforms.retrieval.pipeline import RANKED
from transforms.settings.search import SearchSettings

SETTINGS = SearchSettings(label_pass=0.7, label_weak=0.5)


@pytest.mark.parametrize(
    ("values", "reranks", "label"),
    [
        ([], None, "NO_RESULTS"),
        ([0.49, 0.3], None, "NO_RESULTS"),
        ([0.3, 0.5], None, "WEAK"),
        ([0.3, 0.7], None, "PASS"),
        ([0.3], [5.0], "PASS"),
        ([0.9, 0.9], [4.9, 1.0], "WEAK"),
        ([0.3], [4.9], "NO_RESULTS"),
    ],
)
def test_the_label_of_a_result(values: list[float], reranks: list[float] | None, label: str):
    assert runtime_label(values, reranks, SETTINGS) == label


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
    ranked = pl.DataFrame(rows, schema={n: RANKED[n] for n in rows[0]})
    expected = ("WEAK", "PASS", "PASS", "WEAK", "NO_RESULTS")
    assert runtime_labels(ranked, range(4, 9), SETTINGS) == expected


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
