"""Labels that a search gives its own result without knowing the right one."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import polars as pl

from transforms.retrieval.small_tables import is_given
from transforms.settings.search import SearchSettings

NOTHING = "NO_RESULTS"
_RERANKED = 5.0
"""Score of a model, of 10, from which a hit answers."""
LABELS = ("PASS", "WEAK", NOTHING)


def evidence(support: np.ndarray, cosine: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """The evidence for hits: the share of the query's words in each plus how far its cosine is from the `usual` one to 1.

    A tenth of the index reaches the usual cosine: it differs by model, language and kind of text.
    """
    return np.asarray(support + np.maximum(cosine - usual, 0.0) / (1 - usual))


def names_nothing(terms: Iterable[str], stop: Collection[str]) -> bool:
    """True if the terms of a query are stop words and numbers of at most two digits: some text holds them by chance."""
    return all(term in stop or (term.isdigit() and len(term) <= 2) for term in terms)


def runtime_label(
    evidence: Sequence[float], reranks: Sequence[float] | None, settings: SearchSettings
) -> str:
    """The label of the hits of one query, given the evidence for each and a model's scores.

    PASS if the best reaches `label_pass`, or with a model (`reranks` is not None) if one of its scores reaches
    half of the scale; else NO_RESULTS if none reaches `label_weak`, else WEAK.

    >>> runtime_label([0.4, 0.9], None, SearchSettings())
    'PASS'
    """
    best = max(evidence, default=0.0)
    passes = best >= settings.label_pass if reranks is None else max(reranks) >= _RERANKED
    if passes:
        return "PASS"
    return "WEAK" if best >= settings.label_weak else NOTHING


def runtime_labels(
    ranked: pl.DataFrame, queries: Iterable[int], settings: SearchSettings
) -> tuple[str, ...]:
    """The label of each query, of hits as `pipeline.RANKED`; scores of features are none of a model."""
    values, scores, of_query = (
        ranked.get_column(name).to_numpy() for name in ("evidence", "rerank_score", "query")
    )
    is_judged = ~np.isnan(scores) & ~is_given(ranked.get_column("rerank_parts"))
    labels = []
    for query in queries:
        own = of_query == query
        reranks = scores[own & is_judged].tolist()
        labels.append(runtime_label(values[own].tolist(), reranks or None, settings))
    return tuple(labels)
