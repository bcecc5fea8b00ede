"""Square-root Toeplitz strategies against dense matrices and printed figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.queries.ranges import prefix
from dpcore.strategies.one_attribute.toeplitz import (
    PrefixStrategy,
    inverse_series,
    prefix_svd_bound,
    square_root_of_prefixes,
)

SIGMA = 4.2246788893268326  # The analytic Gaussian mechanism at epsilon 1, delta 1e-6.
RMSE = {64: 9.4197, 256: 11.2747, 1024: 13.1379, 4096: 15.0031, 65_536: 18.7341, 1 << 20: 22.4645}
SVD_BOUNDS = {64: 8.6189, 256: 10.4411, 1024: 12.2921, 4096: 14.1523}  # Thesis, Table 3.3.
sizes = pytest.mark.parametrize("size", [1, 2, 3, 8, 37, 256])


def variances(strategy: PrefixStrategy) -> NDArray[np.float64]:
    """The variance of each prefix if each measured value has noise of variance 1: float64 [n]."""
    return np.cumsum(strategy.reconstruction_coefficients**2)


def error(strategy: PrefixStrategy) -> float:
    """|A|^2 |R|_F^2: the squared error of all prefixes together at unit noise and sensitivity 1."""
    return strategy.squared_sensitivity * float(variances(strategy).sum())


@pytest.mark.parametrize(("size", "rmse"), RMSE.items())
def test_errors_are_the_published_ones(size: int, rmse: float) -> None:
    """Of the real square root; of the integers with 16 bits the same to 4 digits, up to a million values."""
    sums = np.cumsum(square_root_of_prefixes(size) ** 2)
    assert SIGMA * math.sqrt(sums[-1] * sums.mean()) == pytest.approx(rmse, abs=5e-5)
    if size <= 65_536:
        assert SIGMA * math.sqrt(error(PrefixStrategy.of(size)) / size) == pytest.approx(rmse, rel=2e-5)


@pytest.mark.parametrize(("size", "bound"), SVD_BOUNDS.items())
def test_svd_bounds_are_those_of_the_thesis(size: int, bound: float) -> None:
    assert SIGMA * math.sqrt(prefix_svd_bound(size) / size) == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_the_svd_bound_is_that_of_the_dense_workload(others: int) -> None:
    singular = np.linalg.svd(prefix(20 + others, 20).astype(float), compute_uv=False)
    assert prefix_svd_bound(20, others) == pytest.approx(singular.sum() ** 2 / (20 + others))


def lower_toeplitz(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """A[i, j] = coefficients[i - j] for j <= i, entry by entry."""
    size = len(coefficients)
    return np.array([[coefficients[i - j] if i >= j else 0.0 for j in range(size)] for i in range(size)])


@sizes
def test_the_square_root_squares_to_prefixes(size: int) -> None:
    root = lower_toeplitz(square_root_of_prefixes(size))
    assert np.allclose(root @ root, prefix(size), atol=1e-12)


@sizes
def test_both_matrices_are_constant_along_their_diagonals(size: int) -> None:
    result = PrefixStrategy.of(size)
    assert np.array_equal(result.matrix(), lower_toeplitz(result.integers))
    assert np.array_equal(result.reconstruction(), lower_toeplitz(result.reconstruction_coefficients))


@sizes
def test_the_inverse_series_is_that_of_the_inverse_matrix(size: int) -> None:
    series = square_root_of_prefixes(size)
    inverse = lower_toeplitz(inverse_series(series))
    assert np.allclose(inverse @ lower_toeplitz(series), np.eye(size), atol=1e-12)


@pytest.mark.parametrize("bits", [3, 6, 12, 16])
@pytest.mark.parametrize("size", [1, 5, 60])
def test_integers_answer_prefixes_without_bias_and_with_the_variance_of_coefficients(size: int, bits: int) -> None:
    result = PrefixStrategy.of(size, bits)
    measured = result.matrix() / result.denominator
    assert result.integers.dtype == np.int64
    assert np.array_equal(result.matrix()[:, 0], result.integers)
    assert np.allclose(result.reconstruction() @ measured, prefix(size), atol=1e-10)
    expected = prefix(size) @ np.linalg.inv(measured)
    assert np.allclose(variances(result), (expected**2).sum(axis=1))
    norm = (measured**2).sum(axis=0).max()
    assert result.squared_sensitivity == pytest.approx(norm)
    assert error(result) == pytest.approx(norm * (expected**2).sum())
    assert error(result) >= prefix_svd_bound(size) * (1 - 1e-9)


def test_noise_comes_out_with_the_variances_of_the_coefficients() -> None:
    result, generator = PrefixStrategy.of(128), np.random.default_rng(3)
    prefixes = result.reconstruction() @ generator.normal(size=(128, 40_000))
    assert np.allclose(prefixes.var(axis=1), variances(result), rtol=0.04)


def test_rounding_costs_a_part_of_second_order() -> None:
    exact = error(PrefixStrategy.of(4096, 24))
    costs = {bits: error(PrefixStrategy.of(4096, bits)) / exact - 1 for bits in (8, 10, 12)}
    assert abs(costs[12]) < 1e-4
    assert abs(costs[10]) < 1e-3
    assert 0 < costs[8] < 0.02


def test_what_is_no_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="0 values; want 1 or more"):
        PrefixStrategy.of(0)
    with pytest.raises(ValueError, match="coefficients of 29 bits"):
        PrefixStrategy.of(4, 29)
    with pytest.raises(ValueError, match="begin with a positive integer"):
        PrefixStrategy(np.array([0, 1]), 1)
    with pytest.raises(ValueError, match="begins with 0 has no inverse"):
        inverse_series(np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="grows too fast for doubles"):
        inverse_series(np.r_[1.0, 4.0, np.zeros(500)])
    with pytest.raises(ValueError, match="2,049 prefixes; want at most 2,048 written out"):
        PrefixStrategy.of(2049).matrix()
    with pytest.raises(ValueError, match="2,049 prefixes; want at most 2,048 written out"):
        PrefixStrategy.of(2049).reconstruction()
