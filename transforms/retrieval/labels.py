"""Labels that a search gives its own result, and a judge a hit or a sentence, without knowing the
right one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval.small_tables import is_given
from transforms.settings.search import SearchSettings

NOTHING = "NO_RESULTS"
JUDGED = 10
"""Hits of a query that decide on its label, however many are shown."""
_TURN = 0.62
"""Factor on the evidence for a first hit that is a turn of a chat, to which the turns around it
lend their words (the tuned halves of `benchmarks/questions.py` chose it).
"""
UNKNOWN = 0.7
"""Factor on the evidence for hits of a query if no text holds a word of it: vectors of its letters
are near to something.
"""
_RERANKED = 5.0
"""Score of a model, of 10, from which a hit answers."""
LABELS = ("PASS", "WEAK", NOTHING)
RISK, IRRELEVANT = "HALLUCINATION_RISK", "IRRELEVANT"
"""The labels of a text that a judge denies: it looks like an answer, or not (SecondBrain, 6.1)."""


def evidence(support: np.ndarray, cosine: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """The evidence for hits: the share of the query's words in each plus how far its cosine is from
    the `usual` one to 1.

    A tenth of the index reaches the usual cosine: it differs by model, language and kind of text.
    """
    return np.asarray(support + np.maximum(cosine - usual, 0.0) / (1 - usual))


def names_nothing(terms: Iterable[str], stop: Collection[str]) -> bool:
    """True if the terms of a query are stop words and numbers of at most two digits: some text
    holds them by chance.
    """
    return all(term in stop or (term.isdigit() and len(term) <= 2) for term in terms)


class Judged(NamedTuple):
    """The first hits of a query: the evidence for each, the scores of a model or None, and whether
    the first is a turn of a chat and meets the preferences.
    """

    evidence: Sequence[float]
    reranks: Sequence[float] | None = None
    is_turn: bool = False
    meets: bool = True


def runtime_label(hits: Judged, settings: SearchSettings) -> str:
    """The label of the hits of one query, however many of them are shown.

    PASS if the first answers: it meets the preferences, and its evidence reaches `label_pass`, of
    a turn _TURN of it; with a model if one of its scores reaches half of the scale. Else NO_RESULTS
    if the evidence for none reaches `label_weak`, else WEAK.

    >>> runtime_label(Judged([0.9, 0.4]), SearchSettings())
    'PASS'
    """
    first = (hits.evidence[0] if hits.evidence else 0.0) * (_TURN if hits.is_turn else 1.0)
    answers = first >= settings.label_pass and hits.meets
    if max(hits.reranks) >= _RERANKED if hits.reranks else answers:
        return "PASS"
    return "WEAK" if max(hits.evidence, default=0.0) >= settings.label_weak else NOTHING


def runtime_labels(
    ranked: pl.DataFrame, queries: Iterable[int], settings: SearchSettings, unmet: Collection[int]
) -> tuple[str, ...]:
    """The label of each query, of its first hits as `pipeline.RANKED` with `is_turn`; the first hit
    of a query in `unmet` does not meet its preferences.

    Scores of features are none of a model.
    """
    values, scores, turns, of_query = (
        ranked.get_column(name).to_numpy()
        for name in ("evidence", "rerank_score", "is_turn", "query")
    )
    is_judged = ~np.isnan(scores) & ~is_given(ranked.get_column("rerank_parts"))
    labels = []
    for query in queries:
        own = of_query == query
        hits = Judged(
            evidence=values[own].tolist(),
            reranks=scores[own & is_judged].tolist() or None,
            is_turn=bool(turns[own][:1].any()),
            meets=query not in unmet,
        )
        labels.append(runtime_label(hits, settings))
    return tuple(labels)


def label_of_judge(*, is_accepted: bool, is_near: bool) -> str:
    """The label of what a judge read: PASS if it accepts it, HALLUCINATION_RISK if it is near all
    the same, else IRRELEVANT.
    """
    if is_accepted:
        return "PASS"
    return RISK if is_near else IRRELEVANT


def hit_label(hit: Mapping[str, Any], settings: SearchSettings) -> str | None:
    """The label of a hit that a model reranked, by its `rerank_score`; None for one that no model
    read, such as a hit with `rerank_parts`, which features give.

    A hit that the model denies is near if its `evidence` would pass without it (`label_pass`).

    >>> hit = {"rerank_score": 1.0, "rerank_parts": None, "evidence": 0.9}
    >>> hit_label(hit, SearchSettings()), hit_label(hit | {"evidence": 0.3}, SearchSettings())
    ('HALLUCINATION_RISK', 'IRRELEVANT')
    """
    score = hit["rerank_score"]
    if score is None or np.isnan(score) or hit["rerank_parts"] is not None:
        return None
    return label_of_judge(
        is_accepted=score >= _RERANKED, is_near=hit["evidence"] >= settings.label_pass
    )
