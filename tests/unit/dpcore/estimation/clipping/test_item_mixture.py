from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.clipping import item_mixture
from dpcore.estimation.clipping.item_mixture import NO_COLUMN, mixture_predicted

COLUMNS = 14
DRAW = np.random.default_rng(5)
SHARES = np.array([0.5, 0.3, 0.2])
PROBABILITIES = DRAW.beta(0.5, 0.7, (COLUMNS, 3))
CONJUNCTIONS = np.array(
    [[*chosen, *[NO_COLUMN] * (3 - order)] for order in (1, 2, 3) for chosen in combinations(range(COLUMNS), order)],
    dtype=np.int32,
)
ORDERS = (CONJUNCTIONS != NO_COLUMN).sum(axis=1)


def slow_answers(
    columns: NDArray[np.int32], probabilities: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The reference: shares times the product of the probabilities of all columns, summed over the classes."""
    rows = [row[row != NO_COLUMN] for row in columns]
    return np.array([float(shares @ probabilities[row].prod(axis=0)) for row in rows])


EXACT = slow_answers(CONJUNCTIONS, PROBABILITIES, SHARES)


def rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def predicted(noise: NDArray[np.float64], columns: NDArray[np.int32] = CONJUNCTIONS) -> NDArray[np.float64]:
    deviations = np.full(EXACT.size, 0.02)
    start = np.full(int(columns.max()) + 1, 0.5)
    return mixture_predicted(columns, EXACT + noise, deviations, start, 0.01, np.random.default_rng(0))


def test_a_mixture_is_learnt_from_all_orders_together() -> None:
    noise = np.random.default_rng(1).normal(0, 0.02, EXACT.size)
    off = predicted(noise) - EXACT
    product = slow_answers(CONJUNCTIONS, EXACT[:COLUMNS, None], np.ones(1))
    assert rms((product - EXACT)[ORDERS > 1]) > 0.04  # Or the test would show nothing.
    for order in (1, 2, 3):
        assert rms(off[order == ORDERS]) < 0.75 * 0.02


def test_the_answers_are_those_of_the_model() -> None:
    answers = item_mixture._answers(CONJUNCTIONS, PROBABILITIES, SHARES)
    assert answers == pytest.approx(EXACT, rel=1e-12)


def test_columns_may_have_any_numbers() -> None:
    """The fit sees the columns that occur alone: their numbers, and columns without a conjunction, change nothing."""
    noise = np.random.default_rng(1).normal(0, 0.02, EXACT.size)
    apart = np.where(CONJUNCTIONS == NO_COLUMN, NO_COLUMN, 3 * CONJUNCTIONS + 2).astype(np.int32)
    assert np.array_equal(predicted(noise), predicted(noise, apart))


def test_a_prediction_never_sees_its_own_noise() -> None:
    """A prediction is exactly the same whatever the noise of its own conjunction is, as far as its fold is alone."""
    noise = np.random.default_rng(1).normal(0, 0.02, EXACT.size)
    fold = np.random.default_rng(0).permutation(np.arange(EXACT.size) % item_mixture._FOLDS)
    before, changed = predicted(noise), fold == 0
    after = predicted(noise + np.where(changed, np.random.default_rng(2).normal(0, 0.02, EXACT.size), 0.0))
    assert np.array_equal(before[changed], after[changed])
    assert not np.array_equal(before[~changed], after[~changed])


def test_one_generator_state_gives_one_prediction_and_all_are_possible() -> None:
    noise = np.random.default_rng(1).normal(0, 0.3, EXACT.size)
    first = predicted(noise)
    assert np.array_equal(first, predicted(noise))
    assert first.min() >= 0
    assert first.max() < 1.1


def test_of_too_many_conjunctions_the_most_informative_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_mixture, "LARGEST_FITTED", 20)
    deviations = np.full(EXACT.size, 0.02)
    deviations[5] = 1e6
    chosen = item_mixture._most_informative(CONJUNCTIONS, np.full(COLUMNS, 0.5), deviations)
    assert chosen.sum() == 20
    assert chosen[ORDERS == 1].sum() == COLUMNS - 1
    assert not chosen[5]


def test_without_noise_and_with_two_conjunctions_it_ends() -> None:
    columns = np.array([[0, NO_COLUMN], [0, 1]], dtype=np.int32)
    start = np.array([0.5, 0.2])
    result = mixture_predicted(columns, np.array([0.5, 0.1]), np.zeros(2), start, 0.0, np.random.default_rng(0))
    assert np.isfinite(result).all()


def test_a_sweep_solves_the_least_squares_problem_of_each_column() -> None:
    """The reference is a loop over columns that builds each problem densely and descends to its minimum."""
    draw = np.random.default_rng(3)
    scaled, weights = EXACT / 0.02, np.full(EXACT.size, 50.0)
    observed = item_mixture._Observations.of(CONJUNCTIONS, EXACT, 1 / weights, COLUMNS)
    assert observed.scaled == pytest.approx(scaled)
    shares, ridge = draw.dirichlet(np.ones(3)), draw.uniform(1, 50, COLUMNS)
    start, centres = draw.uniform(0, 1, (COLUMNS, 3)), draw.uniform(0, 1, (COLUMNS, 3))
    order, got, expected = draw.permutation(COLUMNS), start.copy(), start.copy()
    item_mixture._sweep(
        observed.starts, observed.rows, CONJUNCTIONS, scaled, weights, got, shares, centres, ridge, order
    )
    for column in order:
        named = [row for row in range(EXACT.size) if column in CONJUNCTIONS[row]]
        partners = [[c for c in CONJUNCTIONS[row] if c not in (column, NO_COLUMN)] for row in named]
        features = np.array([50.0 * shares * expected[others].prod(axis=0) for others in partners])
        gram = features.T @ features + ridge[column] * np.eye(3)
        moments = features.T @ scaled[named] + ridge[column] * centres[column]
        for _ in range(item_mixture._DESCENTS):
            for r in range(3):
                step = (moments[r] - gram[r] @ expected[column]) / gram[r, r]
                expected[column, r] = np.clip(expected[column, r] + step, 0.0, 1.0)
    assert got == pytest.approx(expected, rel=1e-8, abs=1e-10)
