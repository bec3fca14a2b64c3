"""The best of many scores, in a total order."""

from __future__ import annotations

import numpy as np


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if k < len(chosen):
        best_scores = scores[chosen]
        edge = np.partition(best_scores, len(best_scores) - k)[len(best_scores) - k]
        chosen = chosen[best_scores >= edge]
    return chosen[np.lexsort((chosen, -scores[chosen]))][:k]
