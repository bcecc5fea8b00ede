from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.estimation.clipping import pair_factors
from dpcore.estimation.clipping.item_mixture import NO_COLUMN
from dpcore.estimation.clipping.pair_factors import FACTORS, with_pair_factors

COLUMNS, STDDEV = 25, 0.01
DRAW = np.random.default_rng(8)
FREQUENCIES = DRAW.uniform(0.2, 0.6, COLUMNS)
CONJUNCTIONS = np.array(
    [[*chosen, *[NO_COLUMN] * (3 - order)] for order in (1, 2, 3) for chosen in combinations(range(COLUMNS), order)],
    dtype=np.int32,
)
PRODUCTS = np.where(CONJUNCTIONS == NO_COLUMN, 1.0, FREQUENCIES[CONJUNCTIONS]).prod(axis=1)
DEVIATIONS = np.full(PRODUCTS.size, STDDEV)


def names(first: int, second: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The conjunctions with both columns."""
    return np.isin(CONJUNCTIONS, [first, second]).sum(axis=1) == 2


def test_columns_that_never_occur_together_and_that_often_do_are_learnt() -> None:
    exact = PRODUCTS.copy()
    exact[names(0, 1)] = 0.0
    exact[names(2, 3)] *= 2.0
    noisy = exact + np.random.default_rng(1).normal(0, STDDEV, exact.size)
    result = with_pair_factors(CONJUNCTIONS, noisy, PRODUCTS, DEVIATIONS)
    changed = names(0, 1) | names(2, 3)
    assert np.abs(PRODUCTS - exact)[changed].mean() > 4 * STDDEV  # Or the test would show nothing.
    assert np.abs(result - exact)[changed].mean() < 0.3 * STDDEV
    assert np.sqrt(np.mean((result - exact)[~changed] ** 2)) < 0.3 * STDDEV


def test_right_predictions_stay() -> None:
    """One of 300 pairs looks wrong by chance in a tenth of all draws, so the draws are this test's own."""
    noisy = PRODUCTS + np.random.default_rng(1).normal(0, STDDEV, PRODUCTS.size)
    result = with_pair_factors(CONJUNCTIONS, noisy, PRODUCTS, DEVIATIONS)
    assert np.abs(result - PRODUCTS).max() < 0.5 * STDDEV


def test_it_is_the_posterior_mean_without_the_own_value() -> None:
    """The reference: for one conjunction, a loop over the others that share each of its pairs."""
    draw = np.random.default_rng(2)
    noisy = PRODUCTS * draw.choice([0.5, 1.0, 1.6], PRODUCTS.size) + draw.normal(0, STDDEV, PRODUCTS.size)
    deviations = draw.uniform(0.5, 2.0, PRODUCTS.size) * STDDEV

    def likelihood(first: int, second: int, without: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        logs = np.zeros(FACTORS.size)
        for row in np.flatnonzero(names(first, second)):
            if row != without:
                off = (noisy[row] - FACTORS * PRODUCTS[row]) / deviations[row]
                logs += -0.5 * off**2 + 0.5 * (noisy[row] / deviations[row]) ** 2
        return np.exp(logs - logs.max())

    informative = [
        pair
        for pair in combinations(range(COLUMNS), 2)
        if ((PRODUCTS / deviations)[names(*pair)] ** 2).sum() > pair_factors._MIN_INFORMATION
    ]
    likelihoods = [likelihood(*pair, -1) for pair in informative]
    prior = np.full(FACTORS.size, 0.1 / (FACTORS.size - 1))
    prior[FACTORS == 1] = 0.9
    for _ in range(pair_factors._ITERATIONS):
        total = np.full(FACTORS.size, 0.02) + pair_factors._PSEUDO_PAIRS * (FACTORS == 1)
        for each in likelihoods:
            total += each * prior / (each @ prior)
        prior = total / total.sum()

    result = with_pair_factors(CONJUNCTIONS, noisy, PRODUCTS, deviations)
    for row in (0, COLUMNS, COLUMNS + 7, PRODUCTS.size - 1, PRODUCTS.size // 2):
        expected = PRODUCTS[row]
        for pair in combinations(CONJUNCTIONS[row][CONJUNCTIONS[row] != NO_COLUMN].tolist(), 2):
            weights = likelihood(*pair, row) * prior
            expected *= weights @ FACTORS / weights.sum()
        assert result[row] == pytest.approx(expected, rel=1e-6)


def test_single_columns_have_no_pairs() -> None:
    singles = np.arange(5, dtype=np.int32)[:, None]
    values = np.linspace(0.1, 0.5, 5)
    assert with_pair_factors(singles, values + 0.1, values, np.full(5, 0.01)).tolist() == values.tolist()
