"""p-Identity strategies against dense formulas, finite differences and published figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from dpcore.queries.ranges import all_ranges
from dpcore.strategies.one_attribute import p_identity as module
from dpcore.strategies.one_attribute.p_identity import best_p_identity, p_identity, starts
from tests.support.implicit_ranges import AllRanges, Ranges
from tests.support.linear_operators import ImplicitMatrix


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_dense_error(seed: int) -> None:
    generator = np.random.default_rng(seed)
    workload = generator.integers(0, 2, (7, 5)).astype(float)
    gram = workload.T @ workload
    theta = generator.random((2, 5))

    def dense(flat: np.ndarray) -> float:
        rows = flat.reshape(2, 5)
        strategy = np.vstack([np.eye(5), rows]) / (1 + rows.sum(axis=0))
        return math.log(np.sum((workload @ np.linalg.pinv(strategy)) ** 2))

    value, gradient = module._log_error(theta.ravel(), 2, gram)
    assert value == pytest.approx(dense(theta.ravel()))
    assert np.allclose(gradient, approx_fprime(theta.ravel(), dense, 1e-7), atol=1e-5)


@pytest.mark.parametrize("p", [1, 3, 9])
def test_its_columns_have_norm_one_and_its_error_is_the_dense_one(p: int) -> None:
    workload = all_ranges(12)
    for start in starts(p, 12):
        strategy, error = p_identity(workload.T.astype(float) @ workload, start)
        assert np.allclose(strategy.sum(axis=0), 1)
        assert strategy.min() >= 0
        assert error == pytest.approx(np.sum((workload @ np.linalg.pinv(strategy)) ** 2), rel=1e-6)


@pytest.mark.smoke(1)
@pytest.mark.parametrize(("matrix", "published"), [
    (AllRanges(64), 5.55), (Ranges.prefixes(64), 5.32), (Ranges.of_width(64, 32), 5.88),
    (AllRanges(256), 8.07), (Ranges.prefixes(256), 7.35), (Ranges.of_width(256, 32), 6.34),
])  # fmt: skip
def test_it_reaches_the_published_figures(matrix: ImplicitMatrix, published: float) -> None:
    """Thesis, Table 3.2, OPT_0 at epsilon 1, to the printed digits."""
    strategy, error = best_p_identity(matrix.gram())
    assert math.sqrt(2 * error / matrix.shape[0]) <= published + 0.005
    assert np.allclose(strategy.sum(axis=0), 1)


def test_an_attribute_of_one_value_is_measured_as_it_stands() -> None:
    strategy, error = best_p_identity(np.full((1, 1), 4.0))
    assert error == pytest.approx(4.0, rel=1e-4)
    assert np.allclose(strategy.sum(axis=0), 1)


@pytest.mark.parametrize(("p", "n"), [(1, 1), (1, 2), (2, 8), (6, 100), (30, 16)])
def test_starts_are_some_different_points_inside(p: int, n: int) -> None:
    made = starts(p, n)
    assert all(start.shape == (p, n) and start.min() >= 0 and start.any() for start in made)
    assert all(np.array_equal(one, other) for one, other in zip(made, starts(p, n), strict=True))
    assert len({start.tobytes() for start in made}) == 3
