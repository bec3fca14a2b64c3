"""Scores to ranked hits: candidates, fusion, gathering by message and thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from transforms.settings import SearchSettings

RANKED = {
    "query": pl.Int32,
    "rank": pl.Int32,
    "chunk_no": pl.Int64,
    "score": pl.Float64,
    "fused_score": pl.Float64,
    "thread_score": pl.Float64,
    "lexical_score": pl.Float64,
    "vector_score": pl.Float64,
    "lexical_rank": pl.Int32,
    "vector_rank": pl.Int32,
}
"""Columns of ranked hits; a rank is null where the list of candidates does not hold the chunk."""


@dataclass(frozen=True)
class Places:
    """The message and the thread of every chunk, as numbers, int32 arrays by chunk number."""

    message: np.ndarray
    thread: np.ndarray


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if k < len(chosen):
        kept = scores[chosen]
        edge = np.partition(kept, len(kept) - k)[len(kept) - k]
        chosen = chosen[kept >= edge]
    return chosen[np.lexsort((chosen, -scores[chosen]))][:k]


def ranked_hits(
    query: int,
    lexical: np.ndarray,
    vector: np.ndarray,
    allowed: np.ndarray | None,
    places: Places,
    limit: int,
    settings: SearchSettings,
) -> pl.DataFrame:
    """The best chunk of each of the best `limit` messages for one query: the columns of RANKED.

    `lexical` and `vector` are the scores of all chunks; `allowed` masks those that a filter
    keeps. Candidates are the best `candidates_lexical` chunks with a lexical score above 0, the
    best `candidates_vector`, and with a thread weight all chunks of their threads. Scores are
    fused by `fused`; a message is as good as its best chunk, plus the share `thread_weight` of
    the best message of its thread. Ties break on the chunk number.
    """
    mask = np.ones(len(lexical), dtype=bool) if allowed is None else allowed
    by_lexical = top_k(np.where(mask & (lexical > 0), lexical, -np.inf), settings.candidates_lexical)
    by_vector = top_k(np.where(mask, vector, -np.inf), settings.candidates_vector)
    found = np.union1d(by_lexical, by_vector)
    if not len(found):
        return pl.DataFrame(schema=RANKED)
    chosen = _with_threads(found, mask, places) if settings.thread_weight else found
    score = fused(lexical, vector, mask, chosen, by_lexical, by_vector, settings)
    by_score = np.lexsort((chosen, -score))
    _, first = np.unique(places.message[chosen[by_score]], return_index=True)
    best = by_score[first]
    _, thread = np.unique(places.thread[chosen[best]], return_inverse=True)
    thread_best = np.full(thread.max() + 1, -np.inf)
    np.maximum.at(thread_best, thread, score[best])
    share = settings.thread_weight * thread_best[thread]
    order = np.lexsort((chosen[best], -(score[best] + share)))[:limit]
    kept, share = best[order], share[order]
    ranks = {
        "lexical_rank": _ranks(chosen, by_lexical)[kept],
        "vector_rank": _ranks(chosen, by_vector)[kept],
    }
    columns = {
        "query": np.full(len(kept), query),
        "rank": np.arange(1, len(kept) + 1),
        "chunk_no": chosen[kept],
        "score": score[kept] + share,
        "fused_score": score[kept],
        "thread_score": share,
        "lexical_score": lexical[chosen[kept]].astype(np.float64),
        "vector_score": vector[chosen[kept]].astype(np.float64),
    }
    frame = pl.DataFrame(columns | ranks, schema=RANKED)
    return frame.with_columns(pl.col("lexical_rank", "vector_rank").replace(0, None))


def fused(
    lexical: np.ndarray,
    vector: np.ndarray,
    mask: np.ndarray,
    chosen: np.ndarray,
    by_lexical: np.ndarray,
    by_vector: np.ndarray,
    settings: SearchSettings,
) -> np.ndarray:
    """One score for each chosen chunk, float64.

    `blend` scales both scores to 0..1 by their minimum and maximum over all allowed chunks and
    weighs them; `rrf` adds 1 / (rrf_k + rank) for each list of candidates that holds the chunk
    (Cormack, Clarke and Buettcher 2009).
    """
    if settings.fusion == "rrf":
        return sum(  # type: ignore[return-value]
            np.where(r > 0, 1.0 / (settings.rrf_k + np.maximum(r, 1)), 0.0)
            for r in (_ranks(chosen, by_lexical), _ranks(chosen, by_vector))
        )
    weight = settings.lexical_weight
    return weight * _scaled(lexical, mask, chosen) + (1 - weight) * _scaled(vector, mask, chosen)


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


def _scaled(scores: np.ndarray, mask: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Scores of the chosen positions, 0 at the minimum and 1 at the maximum of all masked ones."""
    masked = scores[mask]
    low, high = float(masked.min()), float(masked.max())
    if high <= low:
        return np.zeros(len(chosen))
    return (scores[chosen].astype(np.float64) - low) / (high - low)
