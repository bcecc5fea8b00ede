from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.baskets.item_counts import estimated_counts, posterior_means


def test_estimates_are_nearer_than_the_noisy_counts() -> None:
    draw = np.random.default_rng(0)
    true = np.concatenate([np.zeros(3000), draw.exponential(4, 900), draw.uniform(30, 900, 100)])
    noisy = true + draw.normal(0, 10, true.size)
    estimated = estimated_counts(noisy, 10.0)
    assert np.abs(estimated - true).mean() < 0.4 * np.abs(noisy - true).mean()
    assert (estimated >= 0).all()
    assert np.allclose(estimated[noisy > 300], noisy[noisy > 300])


def test_posterior_means_are_those_of_the_true_prior() -> None:
    """With many values the learnt prior is near the true one, here 0 or uniform, whose posterior mean is summed."""
    draw = np.random.default_rng(2)
    true = np.where(draw.random(200_000) < 0.7, 0.0, draw.uniform(0, 20, 200_000))
    values = true + draw.normal(0, 1, true.size)
    estimated = posterior_means(values, 1.0)
    grid, weights = np.concatenate([[0.0], np.arange(0.005, 20, 0.01)]), np.array([0.7, *np.full(2000, 0.3 / 2000)])
    for value in (-2.0, 0.0, 1.0, 2.0, 3.0, 5.0, 9.0):
        posterior = weights * np.exp(-((value - grid) ** 2) / 2)
        near = np.abs(values - value) < 0.05
        assert estimated[near].mean() == pytest.approx(float(posterior @ grid / posterior.sum()), abs=0.12)


def test_significant_counts_move_little_and_the_others_keep_the_sum() -> None:
    draw = np.random.default_rng(1)
    noisy = np.concatenate([draw.normal(0.3, 1, 5000), [4.5, 6.0, 9.0]])
    estimated = estimated_counts(noisy, 1.0)
    assert np.abs(estimated - noisy)[noisy > 1.5].max() <= 0.75 + 1e-12
    assert np.abs(posterior_means(noisy, 1.0) - noisy)[noisy > 1.5].max() > 1.0
    assert estimated.sum() == pytest.approx(noisy.sum())


def test_fitted_items_keep_their_values_and_the_others_their_sum() -> None:
    noisy = np.concatenate([np.random.default_rng(1).normal(0.5, 1, 500), [-2.0, 3.0]])
    estimated = estimated_counts(noisy, 1.0, np.array([500, 501]))
    assert estimated[[500, 501]].tolist() == [-2.0, 3.0]
    assert estimated[:500].sum() == pytest.approx(noisy[:500].sum())


@pytest.mark.parametrize("stddev", [0.0, 1e-9])
def test_without_noise_counts_stay(stddev: float) -> None:
    counts = np.array([3.0, 0.0, 17.0, 5000.0])
    assert np.allclose(estimated_counts(counts, stddev), counts, atol=1e-6)


def test_one_count_is_enough() -> None:
    assert estimated_counts(np.array([-3.0]), 1.0)[0] >= 0
    assert estimated_counts(np.zeros(0), 1.0).size == 0
