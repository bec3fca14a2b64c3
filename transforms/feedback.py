"""Terms that a query's first candidates have in common, added to the query (pseudo-relevance feedback)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from transforms.lexical import Postings, Weighed, field_weights, idf
from transforms.settings import SearchSettings

_FEWEST = 2
"""Chunks that must hold a term; one that a single chunk holds finds no other."""


def is_wanted(best: float, most: float, settings: SearchSettings) -> bool:
    """True if words of a query are found and no chunk holds most of them.

    `best` is the best lexical score there is, `most` the one that no chunk could exceed. Feedback helps a
    query that says in a few words what others say in different ones; one whose words stand together
    somewhere looks for that place, and the words around it lead away (measured in docs/evaluation.md).
    """
    used = settings.fusion == "blend" and settings.feedback_weight > 0
    return used and 0 < best < settings.feedback_support * most


def expanded_terms(
    asked: Sequence[str],
    counted: pl.DataFrame,
    postings: Postings,
    weights: Weighed,
    settings: SearchSettings,
) -> dict[str, float]:
    """What each term counts: those asked for and `feedback_terms` of those of the first candidates, RM3's mixture.

    `counted` has the terms of these chunks (`terms.numbered_terms`). A term is worth the sum of what it would add to their
    BM25 scores; the worths are made to sum to 1 (Abdul-Jaleel et al., TREC 2004). The asked terms count
    1 - `feedback_weight` each, and the others together `feedback_weight` times their number.
    """
    known = [term for term in asked if postings.df(term)]
    field = pl.col("field").replace_strict(field_weights(settings), return_dtype=pl.Float64)
    held = counted.group_by("chunk_no", "term").agg(frequency=(field * pl.col("tf")).sum())
    norm = pl.Series(weights.norm[held.get_column("chunk_no").to_numpy()], dtype=pl.Float64)
    saturated = held.with_columns(share=pl.col("frequency") / (pl.col("frequency") + norm))
    shares = saturated.group_by("term").agg(pl.col("share").sum()).filter(pl.col("share") > 0).sort("term")
    df = np.array([postings.df(term) for term in shares.get_column("term")], dtype=np.int64)
    rarity = np.array([idf(int(n), postings.chunk_count) if n >= _FEWEST else 0.0 for n in df])
    worth = shares.select("term", worth=pl.col("share") * pl.Series(rarity, dtype=pl.Float64))
    best = worth.filter(pl.col("worth") > 0).sort("worth", "term", descending=[True, False])
    best = best.head(settings.feedback_terms)
    total = best.get_column("worth").sum()
    counts = dict.fromkeys(known, 1 - settings.feedback_weight)
    for term, value in best.iter_rows():
        counts[term] = counts.get(term, 0.0) + settings.feedback_weight * len(known) * value / total
    return counts
