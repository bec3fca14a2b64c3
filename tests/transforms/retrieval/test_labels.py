"""What a search says of its own result."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.retrieval.labels import runtime_label, runtime_labels
from transforms.retrieval.pipeline import RANKED
from transforms.settings.search import SearchSettings

SETTINGS = SearchSettings(label_pass=0.7, label_weak=0.5)


@pytest.mark.parametrize(
    ("evidence", "reranks", "label"),
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
def test_the_label_of_a_result(evidence: list[float], reranks: list[float] | None, label: str):
    assert runtime_label(evidence, reranks, SETTINGS) == label


def test_each_query_is_labelled_and_scores_of_features_are_no_judgement():
    rows = [
        # By a model that refuses the hit, by features, by nobody, and of a hit unlike the query.
        {"query": 4, "vector_score": 0.3, "support": 0.5, "rerank_score": 1.0, "rerank_parts": None},
        {"query": 5, "vector_score": 0.3, "support": 0.5, "rerank_score": 1.0,
         "rerank_parts": [{"part": "fused", "value": 1.0}]},
        {"query": 6, "vector_score": 0.3, "support": 0.5, "rerank_score": None, "rerank_parts": None},
        {"query": 7, "vector_score": -0.2, "support": 0.5, "rerank_score": None, "rerank_parts": None},
    ]  # fmt: skip
    ranked = pl.DataFrame(rows, schema={n: RANKED[n] for n in rows[0]})
    expected = ("WEAK", "PASS", "PASS", "WEAK", "NO_RESULTS")
    assert runtime_labels(ranked, range(4, 9), SETTINGS) == expected
