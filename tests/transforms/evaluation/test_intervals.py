"""Intervals hold what they promise, and tests between systems find what is there and nothing else."""

import numpy as np
import pytest

from transforms.evaluation.quality import bootstrap, paired_difference, wilson


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_gives_the_published_intervals(hits: int, count: int, low: float, high: float):
    found = wilson(hits, count)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert found.low <= found.mean <= found.high


def beta(random: np.random.Generator, size: int) -> np.ndarray:
    return random.beta(2, 1, size)


def mixed(random: np.random.Generator, size: int) -> np.ndarray:
    """Scores as nDCG has them: some 0, some 1, the rest between."""
    kind = random.random(size)
    return np.where(kind < 0.25, 0.0, np.where(kind > 0.7, 1.0, random.beta(2, 2, size)))


@pytest.mark.parametrize(("draw", "mean"), [(beta, 2 / 3), (mixed, 0.3 + 0.45 * 0.5)])
@pytest.mark.parametrize(
    "count", [36, *(pytest.param(count, marks=pytest.mark.exhaustive) for count in (12, 108))]
)
def test_the_bootstrap_covers_the_mean_at_its_level(draw, mean: float, count: int):
    random = np.random.default_rng(7)
    samples = [draw(random, count) for _ in range(600)]
    found = [bootstrap(values) for values in samples]
    covered = np.mean([i.low <= mean <= i.high for i in found])
    assert 0.925 <= covered <= 0.98


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_wilson_covers_the_proportion_at_its_level(share: float):
    hits = np.random.default_rng(8).binomial(36, share, 2000)
    covered = np.mean([i.low <= share <= i.high for i in (wilson(int(h), 36) for h in hits)])
    assert 0.92 <= covered <= 0.99


def test_without_a_difference_the_test_errs_as_often_as_it_says():
    random = np.random.default_rng(9)
    p_values, covered = [], []
    for _ in range(300):
        query = mixed(random, 36)
        first, second = (np.clip(query + random.normal(0, 0.1, 36), 0, 1) for _ in range(2))
        found, p_value = paired_difference(first, second)
        p_values.append(p_value)
        covered.append(found.low <= 0 <= found.high)
    assert 0.02 <= np.mean(np.array(p_values) < 0.05) <= 0.085
    assert 0.915 <= np.mean(covered) <= 0.985


def test_a_small_difference_on_the_same_queries_is_found():
    random = np.random.default_rng(10)
    query = mixed(random, 36)
    found, p_value = paired_difference(query, query + 0.03 + random.normal(0, 0.02, 36))
    assert p_value < 0.001
    assert found.low > 0
    assert paired_difference(query + 0.03, query)[0].mean == pytest.approx(-0.03)


def test_equal_runs_differ_by_nothing():
    values = np.array([0.1, 0.7, 0.3])
    assert paired_difference(values, values) == ((0.0, 0.0, 0.0), 1.0)


def test_the_same_values_have_the_same_interval_and_large_samples_too():
    values = beta(np.random.default_rng(1), 2500)
    found = bootstrap(values)
    assert found == bootstrap(values.copy())
    half = 1.96 * values.std() / 50
    assert found.high - found.mean == pytest.approx(half, rel=0.1)


def test_one_query_says_nothing_about_others():
    assert bootstrap(np.array([0.4])) == (0.4, -np.inf, np.inf)
