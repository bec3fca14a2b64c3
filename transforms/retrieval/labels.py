"""What a search says of its own result without knowing the right one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from transforms.retrieval.small_tables import is_given
from transforms.settings.search import SearchSettings

NOTHING = "NO_RESULTS"
_RERANKED = 5.0
"""Score of a model, of 10, from which a hit answers."""
LABELS = ("PASS", "WEAK", NOTHING)


def runtime_label(
    evidence: Sequence[float], reranks: Sequence[float] | None, settings: SearchSettings
) -> str:
    """The label of the hits of one query, given the evidence for each and a model's scores.

    Evidence is the share of the query's words that a hit holds plus its cosine: each alone is what something else has by
    chance. PASS if the best reaches `label_pass`, or with a model (`reranks` is not None) if one of its scores reaches
    half of the scale; else NO_RESULTS if none reaches `label_weak`, else WEAK.

    >>> runtime_label([0.4, 0.9], None, SearchSettings())
    'PASS'
    """
    best = max(evidence, default=0.0)
    passes = best >= settings.label_pass if reranks is None else max(reranks) >= _RERANKED
    if passes:
        return "PASS"
    return "WEAK" if best >= settings.label_weak else NOTHING


def runtime_labels(ranked: pl.DataFrame, queries: Iterable[int], settings: SearchSettings) -> tuple[str, ...]:
    """The label of each query, of hits as `pipeline.RANKED`; scores of features are none of a model."""
    support, cosine, of_query = (
        ranked.get_column(name).to_numpy() for name in ("support", "vector_score", "query")
    )
    evidence, scores = support + np.maximum(cosine, 0.0), ranked.get_column("rerank_score").to_numpy()
    is_judged = ~np.isnan(scores) & ~is_given(ranked.get_column("rerank_parts"))
    labels = []
    for query in queries:
        own = of_query == query
        reranks = scores[own & is_judged].tolist()
        labels.append(runtime_label(evidence[own].tolist(), reranks or None, settings))
    return tuple(labels)
