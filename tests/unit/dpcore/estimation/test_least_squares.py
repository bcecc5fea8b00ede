"""Local least squares against dense pseudo-inverses, and its intervals against exact laws of sums."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.least_squares import (
    kronecker_times,
    local_least_squares,
    mean_absolute_error,
    row_total,
    total_factors,
)
from dpcore.measurement import Measurement, Noise, mean_absolute_noise, noise_stddev
from dpcore.queries import Marginals, Product, Products
from dpcore.uncertainty import of_measurements

DOMAIN = Domain.of({"a": 3, "b": 4})
RNG = np.random.default_rng(3)
FACTORS = tuple(RNG.normal(size=shape) for shape in ((5, 4), (2, 6), (3, 3)))


def product_measurement(noise: Noise, denominator: int = 8) -> tuple[Measurement, list[NDArray[np.int64]]]:
    strategy = [RNG.integers(-4, 9, (rows, size)) for rows, size in ((4, 3), (6, 4))]
    queries = Products(DOMAIN, (Product(("a", "b"), tuple(strategy)),), denominator)
    return Measurement(queries, RNG.normal(size=24) * 10, noise, 3.0), strategy


def kron(factors: tuple[NDArray[np.float64], ...] | list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return reduce(np.kron, factors)


def laplace_law(scale: float) -> NDArray[np.float64]:
    """Masses of the discrete Laplace on -150 .. 150."""
    masses = np.exp(-np.abs(np.arange(-150, 151)) / scale)
    return np.asarray(masses / masses.sum())


def test_a_factor_at_a_time_is_the_kronecker_product() -> None:
    values = RNG.normal(size=4 * 6 * 3)
    assert np.allclose(kronecker_times(FACTORS, values), kron(FACTORS) @ values)


@pytest.mark.parametrize("noise", list(Noise))
def test_answers_are_those_of_the_dense_pseudo_inverse(noise: Noise) -> None:
    measurement, strategy = product_measurement(noise)
    asked = [np.tril(np.ones((size, size))) for size in (3, 4)]
    real = [matrix / math.sqrt(8) for matrix in strategy]  # Both together over 8.
    factors = [one @ np.linalg.pinv(other) for one, other in zip(asked, real, strict=True)]
    answers = local_least_squares([(measurement, factors)])
    inverse = np.linalg.pinv(kron(strategy) / 8)
    assert np.allclose(answers.values, kron(asked) @ inverse @ measurement.values)
    variances = ((kron(asked) @ inverse) ** 2).sum(axis=1) * measurement.stddev**2
    assert np.allclose(answers.stddev, np.sqrt(variances))
    assert np.allclose(answers.upper - answers.values, answers.values - answers.lower)
    assert answers.measured


@pytest.mark.parametrize("noise", list(Noise))
def test_without_factors_they_are_the_measured_values(noise: Noise) -> None:
    marginals = Marginals(DOMAIN, (("a",), ("b",)))
    one = Measurement(marginals.only([("a",)]), np.arange(3.0), noise, 2.5)
    other = Measurement(marginals.only([("b",)]), np.arange(4.0), noise, 0.3)
    result, expected = local_least_squares([(one, ()), (other, ())]), of_measurements([one, other])
    unit = local_least_squares([(one, [np.eye(3)]), (other, [np.eye(4)])])
    for name in ("values", "stddev", "lower", "upper"):
        assert np.array_equal(getattr(result, name), getattr(expected, name))
        assert np.allclose(getattr(unit, name), getattr(expected, name))


@pytest.mark.parametrize("scale", [0.15, 0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("summed", [1, 2, 5, 30])
def test_intervals_of_sums_of_coarse_noise_cover_enough(scale: float, summed: int) -> None:
    """By the exact law of a sum of discrete Laplaces, also where one of them is nearly always 0."""
    measurement = Measurement(Marginals(Domain.of({"a": summed}), (("a",),)), np.zeros(summed), Noise.LAPLACE, scale)
    answers = local_least_squares([(measurement, [np.ones((1, summed))])])
    law = reduce(np.convolve, [laplace_law(scale)] * summed)
    places = np.arange(law.size) - law.size // 2
    assert law[np.abs(places) <= answers.upper[0]].sum() >= 0.95
    assert answers.stddev[0] ** 2 == pytest.approx((law * places**2).sum())


def test_one_width_for_all_sums_would_cover_too_little() -> None:
    """Thirty values whose own interval is 0, because each is 0 in all but 3 % of draws."""
    law = reduce(np.convolve, [laplace_law(0.24)] * 30)
    assert laplace_law(0.24)[150] >= 0.95
    assert law[law.size // 2] < 0.7


@pytest.mark.parametrize("seed", range(30))
def test_intervals_of_weighted_sums_of_fine_laplace_noise_cover_enough_and_not_much_more(seed: int) -> None:
    """By the exact law: P(|sum w_i L_i| > t) = sum c_i exp(-t / w_i), c_i the product of w_i^2 / (w_i^2 - w_j^2)."""
    generator = np.random.default_rng(seed)
    weights = np.unique(generator.exponential(size=generator.integers(2, 6)) + 0.01)
    steps = 1 << 20
    queries = Products(
        Domain.of({"a": weights.size}), (Product(("a",), (np.eye(weights.size, dtype=np.int64),)),), steps
    )
    answers = local_least_squares(
        [(Measurement(queries, np.zeros(weights.size), Noise.LAPLACE, 1.0), [weights[None, :]])]
    )
    squares = weights**2
    ratios = squares[:, None] / (squares[:, None] - squares[None, :] + np.eye(weights.size) * squares)
    np.fill_diagonal(ratios, 1.0)
    beyond = float((ratios.prod(axis=1) * np.exp(-answers.upper[0] / weights)).sum())
    assert 0.95 - 1e-6 <= 1 - beyond <= 0.967


def test_expected_absolute_errors() -> None:
    """Exact for values as they stand and for Gaussian noise; for a sum of Laplaces between the two laws."""
    mixed = [np.vstack([np.eye(3), np.ones((1, 3))]), np.array([[2.0, 0.0]])]
    one, steps = mean_absolute_noise(Noise.LAPLACE, 40.0), 16
    result = mean_absolute_error(Noise.LAPLACE, 40.0, steps, mixed)
    norms = np.array([2, 2, 2, 2 * math.sqrt(3)])
    normal = noise_stddev(Noise.LAPLACE, 40.0) * math.sqrt(2 / math.pi)
    assert result == pytest.approx((norms[:3].sum() * one + norms[3] * normal) / 4 / steps)
    law = reduce(np.convolve, [laplace_law(4.0)] * 3)
    exact = float((law * np.abs(np.arange(law.size) - law.size // 2)).sum())
    assert exact <= mean_absolute_error(Noise.LAPLACE, 4.0, 1, [np.ones((1, 3))]) <= 1.13 * exact
    dense = np.linalg.norm(kron(FACTORS), axis=1).mean() * 5.0 * math.sqrt(2 / math.pi)
    assert mean_absolute_error(Noise.GAUSSIAN, 5.0, 1, FACTORS) == pytest.approx(dense)
    assert mean_absolute_error(Noise.LAPLACE, 40.0, 1, ()) == one


def test_the_row_total_is_the_most_precise_mean() -> None:
    """Three measurements: a marginal, a strategy that tells the total and one that does not."""
    marginal = Measurement(Marginals(DOMAIN, (("a",),)), np.array([4.0, 5.0, 2.0]), Noise.GAUSSIAN, 2.0)
    strategy = np.array([[2, 1, 0, 0], [0, 0, 3, 3], [0, 1, 0, 0]])
    queries = Products(DOMAIN, (Product(("b",), (strategy,), 5),), 4)
    told = Measurement(queries, np.array([1.0, 6.0, 3.5]), Noise.GAUSSIAN, 1.5)
    blind = Measurement(Products(DOMAIN, (Product(("b",), (strategy[:1],)),)), np.ones(1), Noise.GAUSSIAN, 1.0)
    assert total_factors(blind.queries) is None  # type: ignore[arg-type]
    row = np.ones(4) @ np.linalg.pinv(strategy * 5 / 4)
    totals, variances = np.array([11.0, row @ told.values]), np.array([3 * 4.0, (row @ row) * 1.5**2])
    expected = (totals / variances).sum() / (1 / variances).sum()
    assert row_total([marginal, blind, told]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no measurement determines the number of rows; want"):
        row_total([blind])


def test_the_row_total_of_a_product_over_several_attributes() -> None:
    measurement, strategy = product_measurement(Noise.GAUSSIAN)
    factors = total_factors(measurement.queries)  # type: ignore[arg-type]
    assert factors is not None
    expected = np.ones(12) @ np.linalg.pinv(kron(strategy) / 8)  # type: ignore[arg-type]
    assert np.allclose(kron(list(factors)), expected)
    assert row_total([measurement]) == pytest.approx(float(expected @ measurement.values))
    alone = Measurement(Products(DOMAIN, (Product((), (), 3),), 2), np.array([6.0]), Noise.GAUSSIAN, 1.0)
    assert row_total([alone]) == pytest.approx(4.0)
