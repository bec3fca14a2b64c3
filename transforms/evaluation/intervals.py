"""How sure a measured mean is: confidence intervals, and tests between two systems on the same queries."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
"""Level of every interval that is reported."""

_RESAMPLES = 4000
_SEED = 20250328
_CELLS_AT_ONCE = 1 << 23


class Interval(NamedTuple):
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """The mean of paired differences (second minus first), its interval, and the p-value of no difference."""

    mean: float
    low: float
    high: float
    p_value: float


def wilson(hits: int, count: int) -> Interval:
    """The interval of a proportion by Wilson's score (1927); (0, 0, 1) for a count of 0.

    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.9, 0.596, 0.982]
    """
    if not count:
        return Interval(0.0, 0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    share = hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))


def bootstrap(values: np.ndarray) -> Interval:
    """The interval of a mean by the expanded percentile bootstrap, the same for the same values.

    The percentiles are moved out as a t interval is wider than a normal one, without which small
    samples cover too little (Hesterberg 2015, "What Teachers Should Know About the Bootstrap").
    One value has the interval from minus to plus infinity; none is an error of the caller.
    """
    count = len(values)
    if count < 2:
        return Interval(float(values[0]), -math.inf, math.inf)
    tail = _expanded_tail(count)
    low, high = np.quantile(_resampled_means(values), [tail, 1 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def paired_difference(first: np.ndarray, second: np.ndarray) -> Difference:
    """How much better `second` is than `first` on the same queries.

    The interval is that of `bootstrap` over the differences. The p-value is that of Fisher's
    randomisation test, two-sided, over random signs of the differences (Smucker, Allan and
    Carterette 2007), counted with the observed signs among them, so that it is never 0.
    """
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean, low, high = bootstrap(differences)
    observed = abs(differences.sum())
    if not differences.any():
        return Difference(mean, low, high, 1.0)
    beyond = 0
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS_AT_ONCE // len(differences))
    for start in range(0, _RESAMPLES, step):
        signs = random.integers(0, 2, (min(step, _RESAMPLES - start), len(differences)), dtype=np.int8)
        sums = np.abs((2.0 * signs - 1) @ differences)
        beyond += int((sums >= observed * (1 - 1e-12)).sum())
    return Difference(mean, low, high, (beyond + 1) / (_RESAMPLES + 1))


def _resampled_means(values: np.ndarray) -> np.ndarray:
    """Means of samples drawn with replacement; the same draws for every sample of one size."""
    count = len(values)
    if count <= 2000:
        return _draws(count) @ np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS_AT_ONCE // count)
    blocks = [
        values[random.integers(0, count, (min(step, _RESAMPLES - start), count))].mean(axis=1)
        for start in range(0, _RESAMPLES, step)
    ]
    return np.concatenate(blocks)


@lru_cache(maxsize=16)
def _draws(count: int) -> np.ndarray:
    """How often each of `count` values is drawn, over `count`: float32 of shape (resamples, count)."""
    random = np.random.default_rng(_SEED)
    picked = random.integers(0, count, (_RESAMPLES, count))
    rows = np.arange(_RESAMPLES)[:, None] * count
    times = np.bincount((picked + rows).ravel(), minlength=_RESAMPLES * count)
    return (times.reshape(_RESAMPLES, count) / count).astype(np.float32)


def _expanded_tail(count: int) -> float:
    """The share of bootstrap means below the interval."""
    t = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return NormalDist().cdf(-math.sqrt(count / (count - 1)) * t)
