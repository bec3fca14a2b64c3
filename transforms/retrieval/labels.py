"""What a search says of its own result without knowing the right one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

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
    rows = ranked.select(
        "query",
        evidence=pl.col("support") + pl.col("vector_score").clip(0.0),
        rerank=pl.when(pl.col("rerank_parts").is_null()).then("rerank_score"),
    )
    by_query: dict[int, list[tuple[float, float | None]]] = {query: [] for query in queries}
    for query, evidence, rerank in rows.iter_rows():
        by_query[query].append((evidence, rerank))
    labels = []
    for hits in by_query.values():
        reranks = [rerank for _, rerank in hits if rerank is not None]
        labels.append(runtime_label([evidence for evidence, _ in hits], reranks or None, settings))
    return tuple(labels)
