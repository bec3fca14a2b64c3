"""Hits that are unlike each other: maximal marginal relevance with one dial, and the evidence of a
thread.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import polars as pl

from transforms.retrieval.hits import Step, unchanged
from transforms.settings.search import SearchSettings

MOST_EVIDENCE = 3
_NEAR = 0.5
"""Share of the best score below which a further passage is not evidence, whatever words it adds."""


def marginal_order(relevance: np.ndarray, vectors: np.ndarray, diversity: float) -> list[int]:
    """The order that takes, each time, the highest (1 - diversity) · relevance - diversity ·
    likeness to the chosen.

    Carbonell and Goldstein 1998, lambda = 1 - diversity. Relevance must be in 0 to 1; likeness is
    the highest cosine to a chosen one, none below 0, so that both are of one scale. Ties keep their
    order.
    """
    likeness = np.zeros(len(relevance))
    remaining = np.ones(len(relevance), dtype=bool)
    order = []
    for _ in range(len(relevance)):
        gain = np.where(remaining, (1 - diversity) * relevance - diversity * likeness, -np.inf)
        best = int(np.argmax(gain))
        order.append(best)
        remaining[best] = False
        likeness = np.maximum(likeness, vectors @ vectors[best])
    return order


def diversified(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """All hits, those of each query in the order of `marginal_order`; relevance is the scores laid
    over 0 to 1.

    They have the fact `vector`.
    """
    if hits.is_empty():
        return unchanged(hits)
    parts = []
    for _, group in hits.group_by("query", maintain_order=True):
        scores = group.get_column("score").to_numpy()
        finite = np.where(np.isfinite(scores), scores, scores[np.isfinite(scores)].min(initial=0.0))
        low, high = float(finite.min()), float(finite.max())
        relevance = (finite - low) / (high - low) if high > low else np.ones(len(finite))
        vectors = np.vstack(group.get_column("vector").to_list())
        parts.append(group[marginal_order(relevance, vectors, settings.diversity)])
    return unchanged(pl.concat(parts))


def thread_evidence(scores: Sequence[float], words: Sequence[AbstractSet[str]]) -> list[int]:
    """Which hits of a thread answer together, at most `MOST_EVIDENCE`: the best, then those that
    show more of the query.

    `scores` descend; `words` are the words of the query that each passage shows. Each further hit
    adds most words that none before shows; of equal ones the higher scored comes first (a greedy
    cover).

    >>> thread_evidence([2.0, 1.9, 1.6, 1.2, 0.4], [{"wal", "torn"}, {"wal"}, {"power"}, {"power", "cut"}, {"record"}])
    [0, 3]
    """
    chosen = [0] if scores else []
    cover = set(words[0]) if scores else set()
    while chosen and len(chosen) < MOST_EVIDENCE:
        further = [
            n for n, score in enumerate(scores) if score >= _NEAR * scores[0] and words[n] - cover
        ]
        if not further:
            break
        chosen.append(max(further, key=lambda n: (len(words[n] - cover), -n)))
        cover |= words[chosen[-1]]
    return chosen
