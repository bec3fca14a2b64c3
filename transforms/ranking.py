"""Scores to ranked hits: candidates, fusion, gathering by message and thread."""

from __future__ import annotations

import numpy as np
import polars as pl

from transforms.settings import SearchSettings

RANKED = {
    "query": pl.Int32,
    "rank": pl.Int32,
    "chunk_no": pl.Int64,
    "score": pl.Float64,
    "lexical_score": pl.Float64,
    "vector_score": pl.Float64,
    "lexical_rank": pl.Int32,
    "vector_rank": pl.Int32,
    "fused_score": pl.Float64,
    "thread_score": pl.Float64,
}


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    finite = int(np.isfinite(scores).sum())
    k = min(k, finite)
    if k == 0:
        return np.empty(0, dtype=np.int64)
    clean = np.where(np.isfinite(scores), scores, -np.inf)
    if k < len(clean):
        edge = np.partition(clean, len(clean) - k)[len(clean) - k]
        chosen = np.flatnonzero(clean >= edge)
    else:
        chosen = np.flatnonzero(clean > -np.inf)
    order = np.lexsort((chosen, -clean[chosen]))
    return chosen[order][:k]


def candidates(
    query: int,
    lexical: np.ndarray,
    vector: np.ndarray,
    allowed: np.ndarray | None,
    settings: SearchSettings,
) -> pl.DataFrame:
    """One row per candidate chunk of a query with both scores, both ranks and the fused score.

    `lexical` and `vector` are the scores of all chunks; `allowed` masks those a filter keeps.
    Candidates are the best `candidates_lexical` with a lexical score above 0 and the best
    `candidates_vector`. The blend scales each score by its minimum and maximum over all allowed
    chunks; rank fusion (Cormack, Clarke and Buettcher 2009) adds 1 / (rrf_k + rank) per list.
    """
    mask = np.ones(len(lexical), dtype=bool) if allowed is None else allowed
    if not mask.any():
        return pl.DataFrame(schema={k: v for k, v in RANKED.items() if k not in ("rank", "score", "thread_score")})
    by_lexical = top_k(np.where(mask & (lexical > 0), lexical, -np.inf), settings.candidates_lexical)
    by_vector = top_k(np.where(mask, vector, -np.inf), settings.candidates_vector)
    chosen = np.union1d(by_lexical, by_vector)
    lexical_rank, vector_rank = _ranks(chosen, by_lexical), _ranks(chosen, by_vector)
    if settings.fusion == "rrf":
        fused = _reciprocal(lexical_rank, settings.rrf_k) + _reciprocal(vector_rank, settings.rrf_k)
    else:
        weight = settings.lexical_weight
        fused = weight * _scaled(lexical, mask, chosen) + (1 - weight) * _scaled(vector, mask, chosen)
    return pl.DataFrame(
        {
            "query": pl.Series([query] * len(chosen), dtype=pl.Int32),
            "chunk_no": pl.Series(chosen, dtype=pl.Int64),
            "lexical_score": lexical[chosen].astype(np.float64),
            "vector_score": vector[chosen].astype(np.float64),
            "lexical_rank": pl.Series(lexical_rank, dtype=pl.Int32).replace(0, None),
            "vector_rank": pl.Series(vector_rank, dtype=pl.Int32).replace(0, None),
            "fused_score": fused.astype(np.float64),
        }
    )


def _ranks(chosen: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Rank from 1 of each chosen position in an ordered list, 0 where it is not in it."""
    ranks = np.zeros(len(chosen), dtype=np.int32)
    ranks[np.searchsorted(chosen, ordered)] = np.arange(1, len(ordered) + 1)
    return ranks


def _reciprocal(ranks: np.ndarray, k: int) -> np.ndarray:
    return np.where(ranks > 0, 1.0 / (k + np.maximum(ranks, 1)), 0.0)


def _scaled(scores: np.ndarray, mask: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Scores of the chosen positions, 0 at the minimum and 1 at the maximum of all masked ones."""
    masked = scores[mask]
    low, high = float(masked.min()), float(masked.max())
    if high <= low:
        return np.zeros(len(chosen))
    return (scores[chosen].astype(np.float64) - low) / (high - low)


def ranked_hits(candidates: pl.DataFrame, chunks: pl.DataFrame, limit: int, settings: SearchSettings) -> pl.DataFrame:
    """The best chunk of each message, messages ranked, at most `limit` per query.

    `chunks` gives chunk_id, doc_id and thread_id by chunk_no. A message receives the share
    `thread_weight` of the best fused score in its thread on top of its own. Ties break on chunk_id.
    """
    joined = candidates.join(chunks.select("chunk_no", "chunk_id", "doc_id", "thread_id"), on="chunk_no")
    scored = joined.with_columns(
        thread_score=settings.thread_weight * pl.col("fused_score").max().over("query", "thread_id")
    ).with_columns(score=pl.col("fused_score") + pl.col("thread_score"))
    order = {"by": ["query", "score", "chunk_id"], "descending": [False, True, False]}
    best = scored.sort(**order).unique(["query", "doc_id"], keep="first", maintain_order=True)  # type: ignore[arg-type]
    return (
        best.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query"))
        .filter(pl.col("rank") <= limit)
        .select(*RANKED, "chunk_id", "doc_id", "thread_id")
    )
