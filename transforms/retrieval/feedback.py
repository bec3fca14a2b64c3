"""Terms that a query's first candidates have in common, added to the query (pseudo-relevance feedback)."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import polars as pl

from transforms.retrieval.bm25 import Weighed, field_weights, idf
from transforms.retrieval.postings import Postings
from transforms.settings.search import SearchSettings

_SUPPORT = 0.35
"""Lexical score : the most a chunk could get, from which the best chunk holds the words of a query."""
CHUNKS = 5
"""Candidates whose terms are added to a query."""
KINDS = ("message", "attachment")
"""Kinds of source that all of these must be of; neither chat nor a mixture, where it hurt."""
_TERMS = 20
"""Terms that are added."""
_FEWEST = 2
"""Chunks that must hold a term; one that a single chunk holds finds no other."""


def applies(best: float, most: float, settings: SearchSettings) -> bool:
    """True if words of a query are found and no chunk holds most of them.

    `best` is the best lexical score there is, `most` the one that no chunk could exceed. Feedback helps a
    query that says in a few words what others say in different ones; one whose words stand together
    somewhere looks for that place, and the words around it lead away (measured in docs/evaluation.md).
    """
    used = settings.fusion == "blend" and settings.feedback_weight > 0
    return used and 0 < best < _SUPPORT * most


def expanded_terms(
    query_terms: Sequence[str],
    term_counts: pl.DataFrame,
    postings: Postings,
    weights: Weighed,
    settings: SearchSettings,
    most: int = _TERMS,
) -> dict[str, float]:
    """The weight of each term: those of the query and `most` of those of the first candidates, RM3's mixture.

    `counted` has the terms of these chunks (`terms.numbered_terms`). A term is worth the sum of what it would add to their
    BM25 scores; the worths are made to sum to 1 (Abdul-Jaleel et al., TREC 2004). The terms of the query count
    1 - `feedback_weight` each, and the others together `feedback_weight` times their number.
    """
    known = [term for term in query_terms if postings.df(term)]
    field = pl.col("field").replace_strict(field_weights(settings), return_dtype=pl.Float64)
    frequencies = term_counts.group_by("chunk_no", "term").agg(frequency=(field * pl.col("tf")).sum())
    slots = postings.slots.of(frequencies.get_column("chunk_no").to_numpy())
    norm = pl.Series(weights.norm[slots], dtype=pl.Float64)
    saturated = frequencies.with_columns(share=pl.col("frequency") / (pl.col("frequency") + norm))
    shares = saturated.group_by("term").agg(pl.col("share").sum()).filter(pl.col("share") > 0)
    best = worthiest(shares.sort("share", "term", descending=[True, False]), postings, most)
    total = sum(worth for worth, _ in best)
    counts = dict.fromkeys(known, 1 - settings.feedback_weight)
    for worth, term in best:
        counts[term] = counts.get(term, 0.0) + settings.feedback_weight * len(known) * worth / total
    return counts


def worthiest(shares: pl.DataFrame, postings: Postings, count: int) -> list[tuple[float, str]]:
    """The `count` terms with the highest share times idf, and that worth; `shares` has term and share, largest first.

    Rare terms are looked up no further than one could still be among them.
    """
    rarest, best = idf(_FEWEST, postings.chunk_count), list[tuple[float, str]]()
    for term, share in shares.select("term", "share").iter_rows():
        if len(best) >= count and share * rarest < best[-1][0]:
            break
        if (df := postings.df(term)) >= _FEWEST:
            bisect.insort(best, (share * idf(df, postings.chunk_count), term), key=lambda w: (-w[0], w[1]))
            del best[count:]
    return best
