"""Processor time of work, for tests of how it grows."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Processor time of the best of some runs."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)
