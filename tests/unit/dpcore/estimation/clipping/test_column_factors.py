from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.clipping import column_factors
from dpcore.estimation.clipping.column_factors import RANKS, cross_predicted

COLUMNS, TRIPLES = 40, 4_000
DRAW = np.random.default_rng(3)
FREQUENCIES = DRAW.uniform(0.05, 0.5, COLUMNS)
CHOSEN = np.sort(np.array([DRAW.choice(COLUMNS, 3, replace=False) for _ in range(TRIPLES)]), axis=1).astype(np.int32)
FITTED, OTHERS = CHOSEN[:3_500], CHOSEN[3_500:]


def mixture(columns: NDArray[np.int32]) -> NDArray[np.float64]:
    """Two kinds of units: one holds the first half of the columns more often, the other the second half."""
    tilt = np.where(np.arange(COLUMNS) < COLUMNS // 2, 1.8, 0.2)
    return 0.5 * (FREQUENCIES * tilt)[columns].prod(axis=1) + 0.5 * (FREQUENCIES * (2 - tilt))[columns].prod(axis=1)


def rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def test_a_mixture_is_learnt_from_noisy_answers_where_the_product_is_wrong() -> None:
    noise = 0.003
    values = mixture(FITTED) + DRAW.normal(0, noise, len(FITTED))
    result = cross_predicted(FITTED, values, noise, FREQUENCIES, OTHERS, np.random.default_rng(0))
    product = FREQUENCIES[OTHERS].prod(axis=1)
    assert rms(product - mixture(OTHERS)) > 4 * noise  # Or the test would show nothing.
    assert result.rank >= 2
    assert rms(result.values - mixture(FITTED)) < 0.6 * noise
    assert rms(result.others - mixture(OTHERS)) < 0.6 * noise


def test_a_product_needs_one_rank() -> None:
    noise = 0.01
    values = FREQUENCIES[FITTED].prod(axis=1) + DRAW.normal(0, noise, len(FITTED))
    result = cross_predicted(FITTED, values, noise, FREQUENCIES, OTHERS, np.random.default_rng(0))
    assert rms(result.others - FREQUENCIES[OTHERS].prod(axis=1)) < 0.5 * noise


def test_a_prediction_never_sees_its_own_noise() -> None:
    """Pure noise: what is predicted for an answer is unrelated to its value. In sample it would be related."""
    values = DRAW.normal(0, 1.0, len(FITTED))
    result = cross_predicted(FITTED, values, 1.0, FREQUENCIES, OTHERS, np.random.default_rng(0))
    if result.values.std() > 0:
        assert abs(float(np.corrcoef(values, result.values)[0, 1])) < 5 / np.sqrt(len(FITTED))


def test_one_generator_state_gives_one_prediction() -> None:
    values = mixture(FITTED)
    one, other = (
        cross_predicted(FITTED, values, 0.01, FREQUENCIES, OTHERS, np.random.default_rng(9)) for _ in range(2)
    )
    assert np.array_equal(one.values, other.values)
    assert one.rank == other.rank
    assert one.rank in RANKS


def test_two_answers_are_enough_to_end() -> None:
    result = cross_predicted(FITTED[:2], np.array([0.1, 0.2]), 0.1, FREQUENCIES, OTHERS[:0], np.random.default_rng(0))
    assert np.isfinite(result.values).all()
    assert result.others.shape == (0,)


STDDEV = 0.01


def slow_fit(
    columns: NDArray[np.int32], values: NDArray[np.float64], frequencies: NDArray[np.float64], use: NDArray[np.bool_],
    rank: int,
) -> NDArray[np.float64]:  # fmt: skip
    """The reference: every column solves for its factors from the conjunctions that name it, in their order."""
    draw, order = np.random.default_rng(5), columns.shape[1]
    products = frequencies[columns[use]].prod(axis=1)
    lift = max(0.1, float(values[use] @ products) / float(products @ products))
    mean = (lift / rank) ** (1 / order) * np.exp(0.3 * draw.standard_normal(rank))
    factors = mean * np.exp(0.3 * draw.standard_normal((frequencies.size, rank)))
    ridge = np.full(rank, 2.0 / float(mean.mean()) ** 2)
    weights = np.where(np.isin(np.arange(frequencies.size), columns), frequencies, 0.0)
    weights /= weights.sum()
    for _ in range(column_factors._SWEEPS):
        for column in np.argsort(-frequencies, kind="stable"):
            named = [query for query in np.flatnonzero(use) if column in columns[query]]
            gram, moments = np.diag(ridge), ridge * mean
            for query in named:
                others = [other for other in columns[query] if other != column]
                feature = frequencies[column] / STDDEV * np.prod(frequencies[others, None] * factors[others], axis=0)
                gram, moments = gram + np.outer(feature, feature), moments + values[query] / STDDEV * feature
            gram = gram + 1e-12 * (np.trace(gram) - ridge.sum()) * np.eye(rank)
            factors[column] = np.linalg.solve(gram, moments) if named else mean
        mean = weights @ factors
        variance = weights @ (factors - mean) ** 2
        least = max(column_factors._MIN_RELATIVE_VARIANCE * float(mean.mean()) ** 2, 1e-12)
        ridge = 1.0 / np.maximum(variance, least)
    return factors


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_fit_is_that_of_a_loop_over_the_conjunctions_of_each_column(order: int, rank: int) -> None:
    draw = np.random.default_rng(order)
    columns = np.array([draw.choice(12, size=order, replace=False) for _ in range(60)], dtype=np.int32)
    frequencies = draw.uniform(0.05, 0.6, 15)  # The last three columns are in no conjunction.
    values = frequencies[columns].prod(axis=1) * draw.uniform(0.5, 2.0, 60) + STDDEV * draw.standard_normal(60)
    use = draw.random(60) < 0.5
    observed = column_factors._Observations.of(columns, values, frequencies, use)
    fitted = column_factors._fit(
        columns, values / STDDEV, STDDEV, frequencies, observed, rank, np.random.default_rng(5)
    )
    assert fitted == pytest.approx(slow_fit(columns, values, frequencies, use, rank), rel=1e-9)
