"""What a search says of its own result without knowing the right one (SecondBrain)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from transforms.settings.search import SearchSettings

_WORDS = 0.85
"""Share of the query's words, rare ones weighing more, from which a hit needs no cosine."""
_SUPPORT = 0.3
"""The same share from which a hit is borne out by words."""
NOTHING = "NO_RESULTS"
LABELS = ("PASS", "HALLUCINATION_RISK", "IRRELEVANT", NOTHING)


def runtime_label(
    similarities: Sequence[float],
    supports: Sequence[float],
    reranks: Sequence[float] | None,
    settings: SearchSettings,
) -> str:
    """The label of the hits of one query, given their cosine, the share of its words they hold, and a model's scores.

    A hit is near if it is similar (`label_similarity`) or holds the words (_WORDS): the name of a function
    or a version means nothing to most models. It is borne out if the model's score reaches `label_rerank`, or
    without a model (`reranks` is None) if it holds enough of the words (_SUPPORT).
    PASS if one hit is both; NO_RESULTS if none is near; HALLUCINATION_RISK if one is very similar and none is
    borne out; else IRRELEVANT.
    """
    borne = (
        [s >= _SUPPORT for s in supports]
        if reranks is None
        else [r >= settings.label_rerank for r in reranks]
    )
    near = [
        similarity >= settings.label_similarity or support >= _WORDS
        for similarity, support in zip(similarities, supports, strict=True)
    ]
    if any(n and b for n, b in zip(near, borne, strict=True)):
        return "PASS"
    if not any(near):
        return NOTHING
    risky = any(s >= settings.label_high_similarity for s in similarities)
    return "HALLUCINATION_RISK" if risky else "IRRELEVANT"


def runtime_labels(ranked: pl.DataFrame, queries: Iterable[int], settings: SearchSettings) -> tuple[str, ...]:
    """The label of each query, of hits as `pipeline.RANKED`; scores of features are none of a model."""
    columns = ("vector_score", "support", "rerank_score", "rerank_parts")
    by_query: dict[int, list[tuple[Any, ...]]] = {query: [] for query in queries}
    values = (ranked.get_column(name).to_list() for name in ("query", *columns))
    for query, *row in zip(*values, strict=True):
        by_query[query].append(tuple(row))
    labels = []
    for rows in by_query.values():
        by_model = [row for row in rows if row[2] is not None and row[3] is None]
        similarities, supports, reranks = ([row[place] for row in by_model or rows] for place in range(3))
        labels.append(runtime_label(similarities, supports, reranks if by_model else None, settings))
    return tuple(labels)
