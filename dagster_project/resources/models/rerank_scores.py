"""What gives passages scores for a query, and the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class RerankScores:
    """Scores of the first passages, higher is better; all of them, unless time ran out or there is a `refusal`."""

    scores: np.ndarray
    refusal: str | None = None


class PassageScorer(Protocol):
    """A model that gives passages scores for a query."""

    name: str

    def scores(self, query: str, titles: Sequence[str], texts: Sequence[str]) -> RerankScores:
        """The scores; WeftError if the model cannot be asked at all."""
