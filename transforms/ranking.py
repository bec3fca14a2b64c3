"""Scores to candidates: the best of both lists, their threads, and one fused score for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.selection import top_k
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
    """The document (mail, note) and the thread of every chunk, as numbers, int32 arrays by chunk number.

    `given_members` are the `members`, where they are known already.
    """

    document: np.ndarray
    thread: np.ndarray
    given_members: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Chunk numbers by thread, and where each thread begins among them, with the end of the last."""
        return self.given_members or members(self.thread)


def members(thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions by number of the thread, ascending in each, and where each number begins among them."""
    ordered = np.argsort(thread, kind="stable").astype(np.int32)
    counts = np.bincount(thread)
    return ordered, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def is_diagnostic(query: str, settings: SearchSettings) -> bool:
    """True if a query looks for what a program said: logs then count in full (seed 000)."""
    return re.search(settings.diagnostic_pattern, query) is not None


class Scores(Protocol):
    """The scores of one query, however they are found; `low` and `high` bound those of all allowed chunks."""

    @property
    def low(self) -> float:
        """The lowest."""

    @property
    def high(self) -> float:
        """The highest."""

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first, ties by number."""

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""


class ExactScores:
    """The scores of all chunks at hand, `allowed` masking those that a filter keeps.

    Only chunks with a score above `least` are among the best. A chunk without a vector has the score -inf:
    it is no candidate of the vector search, and counts as the least similar chunk where its terms make it one.
    """

    def __init__(self, scores: np.ndarray, allowed: np.ndarray | None, least: float = -np.inf):
        self.scores, self.allowed, self.least = scores, allowed, least
        kept = scores if allowed is None else scores[allowed]
        if len(kept) and not np.isfinite(kept.min()):
            kept = kept[np.isfinite(kept)]
        self.low, self.high = (float(kept.min()), float(kept.max())) if len(kept) else (0.0, 0.0)

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first, ties by number."""
        kept = self.scores > self.least if self.allowed is None else self.allowed & (self.scores > self.least)
        chosen = np.flatnonzero(kept)
        return chosen[top_k(self.scores[chosen], k)]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""
        return np.maximum(self.scores[chunks], self.low).astype(np.float64)


def fused_candidates(
    query: int,
    lexical: Scores,
    vector: Scores,
    allowed: np.ndarray | None,
    places: Places,
    settings: SearchSettings,
    logs: np.ndarray | None = None,
    feedback: Scores | None = None,
) -> pl.DataFrame:
    """The candidates of one query, best first, ties by chunk number: the columns FUSED.

    `allowed` masks the chunks that a filter keeps; all scores know of it. `feedback` are lexical scores of the
    query with terms added, which then are what is blended; they bring candidates of their own.
    Candidates are the best `candidates_lexical` chunks with a lexical score above 0, the best
    `candidates_vector`, and with a thread weight all chunks of their threads. Scores are fused by
    `_fused`; `logs` masks chunks whose score is then weighed by `log_weight`.
    """
    by_lexical = lexical.best(settings.candidates_lexical)
    by_vector = vector.best(settings.candidates_vector)
    by_feedback = by_lexical if feedback is None else feedback.best(settings.candidates_lexical)
    found = np.union1d(np.union1d(by_lexical, by_vector), by_feedback)
    if not len(found):
        return pl.DataFrame(schema=FUSED)
    chosen = _with_threads(found, allowed, places) if settings.thread_weight else found
    ranks = {"lexical_rank": _ranks(chosen, by_lexical), "vector_rank": _ranks(chosen, by_vector)}
    scores = {"lexical_score": lexical.of(chosen), "vector_score": vector.of(chosen)}
    words = lexical if feedback is None else feedback
    both = (
        scaled(words.of(chosen), words.low, words.high),
        scaled(scores["vector_score"], vector.low, vector.high),
    )
    fused = _fused(both, tuple(ranks.values()), settings)
    if logs is not None:
        fused = np.where(logs[chosen], settings.log_weight * fused, fused)
    order = np.lexsort((chosen, -fused))
    columns = {
        "query": np.full(len(chosen), query, dtype=np.int32),
        "chunk_no": chosen.astype(np.int64),
        "document": places.document[chosen],
        "thread": places.thread[chosen],
        "score": fused,
        "fused_score": fused,
        "thread_score": np.zeros(len(chosen)),
        **scores,
    }
    made = [pl.Series(name, values[order], FUSED[name]) for name, values in columns.items()]
    for name, values in ranks.items():
        placed = pa.array(values[order], mask=values[order] == 0)
        made.append(pl.Series(name, placed, FUSED[name]))
    return pl.DataFrame(made)


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


def _with_threads(found: np.ndarray, allowed: np.ndarray | None, places: Places) -> np.ndarray:
    """All allowed chunks in the threads of the found ones, in order."""
    chunks, starts = places.members
    threads = np.unique(places.thread[found])
    sizes = starts[threads + 1] - starts[threads]
    # The places of the members of each thread, one after the other.
    steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.sort(chunks[np.repeat(starts[threads], sizes) + steps])
    return chosen if allowed is None else chosen[allowed[chosen]]


def _ranks(chosen: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Rank from 1 of each chosen position in an ordered list, 0 where it is not in it."""
    ranks = np.zeros(len(chosen), dtype=np.int32)
    ranks[np.searchsorted(chosen, ordered)] = np.arange(1, len(ordered) + 1)
    return ranks


def scaled(scores: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scores with `low` at 0 and `high` at 1; where all are equal, 1 if they are above 0.

    What a filter leaves alone is the best there is, and not worth nothing.
    """
    return (scores - low) / (high - low) if high > low else np.full(len(scores), float(high > 0))
