"""The best of many scores, in a total order."""

from __future__ import annotations

import numpy as np


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if k < len(chosen):
        kept = scores[chosen]
        edge = np.partition(kept, len(kept) - k)[len(kept) - k]
        chosen = chosen[kept >= edge]
    return chosen[np.lexsort((chosen, -scores[chosen]))][:k]
