"""Scores to candidates: the best of both lists, their threads, and one fused score for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from transforms.settings import SearchSettings

FUSED = {
    "query": pl.Int32,
    "chunk_no": pl.Int64,
    "document": pl.Int32,
    "thread": pl.Int32,
    "score": pl.Float64,
    "fused_score": pl.Float64,
    "thread_score": pl.Float64,
    "lexical_score": pl.Float64,
    "vector_score": pl.Float64,
    "lexical_rank": pl.Int32,
    "vector_rank": pl.Int32,
}
"""Columns of candidates. `score` is what they are ordered by; a rank is null where the list of that search does
not hold the chunk; document and thread are numbers."""


@dataclass(frozen=True)
class Places:
    """The document (mail, note) and the thread of every chunk, as numbers, int32 arrays by chunk number."""

    document: np.ndarray
    thread: np.ndarray


def is_diagnostic(query: str, settings: SearchSettings) -> bool:
    """True if a query looks for what a program said: logs then count in full (seed 000)."""
    return re.search(settings.diagnostic_pattern, query) is not None


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if k < len(chosen):
        kept = scores[chosen]
        edge = np.partition(kept, len(kept) - k)[len(kept) - k]
        chosen = chosen[kept >= edge]
    return chosen[np.lexsort((chosen, -scores[chosen]))][:k]


class VectorScores(Protocol):
    """The vector scores of one query, however they are found; `low` and `high` bound those of all chunks."""

    low: float
    high: float

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first."""

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""


class ExactScores:
    """The scores of all chunks at hand, `allowed` masking those that a filter keeps.

    A chunk without a vector has the score -inf: it is no candidate of the vector search, and counts
    as the least similar chunk where its terms make it one.
    """

    def __init__(self, scores: np.ndarray, allowed: np.ndarray | None):
        self.scores, self.allowed = scores, allowed
        kept = scores if allowed is None else scores[allowed]
        if len(kept) and not np.isfinite(kept.min()):
            kept = kept[np.isfinite(kept)]
        self.low, self.high = (float(kept.min()), float(kept.max())) if len(kept) else (0.0, 0.0)

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first."""
        return top_k(self.scores if self.allowed is None else np.where(self.allowed, self.scores, -np.inf), k)

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""
        return np.maximum(self.scores[chunks], self.low).astype(np.float64)


def fused_candidates(
    query: int,
    lexical: np.ndarray,
    vector: VectorScores,
    allowed: np.ndarray | None,
    places: Places,
    settings: SearchSettings,
    logs: np.ndarray | None = None,
) -> pl.DataFrame:
    """The candidates of one query, best first, ties by chunk number: the columns FUSED.

    `lexical` holds the scores of all chunks; `allowed` masks those that a filter keeps.
    Candidates are the best `candidates_lexical` chunks with a lexical score above 0, the best
    `candidates_vector`, and with a thread weight all chunks of their threads. Scores are fused by
    `_fused`; `logs` masks chunks whose score is then weighed by `log_weight`.
    """
    mask = np.ones(len(lexical), dtype=bool) if allowed is None else allowed
    by_lexical = top_k(np.where(mask & (lexical > 0), lexical, -np.inf), settings.candidates_lexical)
    by_vector = vector.best(settings.candidates_vector)
    found = np.union1d(by_lexical, by_vector)
    if not len(found):
        return pl.DataFrame(schema=FUSED)
    chosen = _with_threads(found, mask, places) if settings.thread_weight else found
    ranks = {"lexical_rank": _ranks(chosen, by_lexical), "vector_rank": _ranks(chosen, by_vector)}
    scores = {"lexical_score": lexical[chosen].astype(np.float64), "vector_score": vector.of(chosen)}
    kept_lexical = lexical[mask]
    both = (
        scaled(scores["lexical_score"], float(kept_lexical.min()), float(kept_lexical.max())),
        scaled(scores["vector_score"], vector.low, vector.high),
    )
    fused = _fused(both, tuple(ranks.values()), settings)
    if logs is not None:
        fused = np.where(logs[chosen], settings.log_weight * fused, fused)
    order = np.lexsort((chosen, -fused))
    columns = {
        "query": np.full(len(chosen), query),
        "chunk_no": chosen,
        "document": places.document[chosen],
        "thread": places.thread[chosen],
        "score": fused,
        "fused_score": fused,
        "thread_score": np.zeros(len(chosen)),
        **scores,
        **ranks,
    }
    return pl.DataFrame({name: values[order] for name, values in columns.items()}, schema=FUSED).with_columns(
        pl.col("lexical_rank", "vector_rank").replace(0, None)
    )


def _fused(
    scaled: tuple[np.ndarray, np.ndarray], ranks: tuple[np.ndarray, ...], settings: SearchSettings
) -> np.ndarray:
    """One score for each candidate, float64.

    `blend` weighs both scores, scaled to 0..1 by their minimum and maximum over all allowed
    chunks; `rrf` adds 1 / (rrf_k + rank) for each list of candidates that holds the chunk
    (Cormack, Clarke and Buettcher 2009).
    """
    if settings.fusion == "rrf":
        parts = [np.where(r > 0, 1.0 / (settings.rrf_k + np.maximum(r, 1)), 0.0) for r in ranks]
        return np.asarray(parts[0] + parts[1])
    lexical, vector = scaled
    return settings.lexical_weight * lexical + (1 - settings.lexical_weight) * vector


def _with_threads(found: np.ndarray, mask: np.ndarray, places: Places) -> np.ndarray:
    """All allowed chunks in the threads of the found ones, in order."""
    wanted = np.zeros(int(places.thread.max()) + 1, dtype=bool)
    wanted[places.thread[found]] = True
    return np.flatnonzero(mask & wanted[places.thread])


def _ranks(chosen: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Rank from 1 of each chosen position in an ordered list, 0 where it is not in it."""
    ranks = np.zeros(len(chosen), dtype=np.int32)
    ranks[np.searchsorted(chosen, ordered)] = np.arange(1, len(ordered) + 1)
    return ranks


def scaled(scores: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scores with `low` at 0 and `high` at 1; all 0 where nothing lies between."""
    return (scores - low) / (high - low) if high > low else np.zeros(len(scores))
