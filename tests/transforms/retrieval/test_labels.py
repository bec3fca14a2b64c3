"""What a search says of its own result."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.retrieval.labels import runtime_label, runtime_labels
from transforms.retrieval.pipeline import RANKED
from transforms.settings.search import SearchSettings

SETTINGS = SearchSettings(label_similarity=0.3, label_high_similarity=0.6, label_rerank=5)


@pytest.mark.parametrize(
    ("similarities", "supports", "reranks", "label"),
    [
        ([], [], None, "NO_RESULTS"),
        ([0.29], [0.84], None, "NO_RESULTS"),
        (
            [0.29],
            [0.85],
            None,
            "PASS",
        ),  # a name or a version means nothing to the model, and its words are all there
        ([0.29, 0.3], [0.7, 0.3], None, "PASS"),
        ([0.29, 0.3], [0.7, 0.2], None, "IRRELEVANT"),  # similar is one, borne out another
        ([0.6, 0.3], [0.2, 0.2], None, "HALLUCINATION_RISK"),
        ([0.2], [0.7], [9.0], "NO_RESULTS"),
        ([0.2], [0.9], [9.0], "PASS"),
        ([0.2], [0.9], [1.0], "IRRELEVANT"),
        ([0.4, 0.2], [0.9, 0.7], [4.9, 9.0], "IRRELEVANT"),
        ([0.4, 0.2], [0.1, 0.1], [5.0, 0.0], "PASS"),
        ([0.7, 0.2], [0.9, 0.7], [1.0, 9.0], "HALLUCINATION_RISK"),
        ([0.7, 0.4], [0.1, 0.1], [1.0, 6.0], "PASS"),
    ],
)
def test_the_label_of_a_result(
    similarities: list[float], supports: list[float], reranks: list[float] | None, label: str
):
    assert runtime_label(similarities, supports, reranks, SETTINGS) == label


def test_each_query_is_labelled_and_scores_of_features_are_no_judgement():
    rows = [
        # By a model that refuses the hit, by features, and by nobody.
        {"query": 4, "vector_score": 0.7, "support": 0.9, "rerank_score": 1.0, "rerank_parts": None},
        {"query": 5, "vector_score": 0.7, "support": 0.9, "rerank_score": 1.0,
         "rerank_parts": [{"part": "fused", "value": 1.0}]},
        {"query": 6, "vector_score": 0.7, "support": 0.9, "rerank_score": None, "rerank_parts": None},
    ]  # fmt: skip
    ranked = pl.DataFrame(rows, schema={n: RANKED[n] for n in rows[0]})
    assert runtime_labels(ranked, range(4, 8), SETTINGS) == (
        "HALLUCINATION_RISK",
        "PASS",
        "PASS",
        "NO_RESULTS",
    )
