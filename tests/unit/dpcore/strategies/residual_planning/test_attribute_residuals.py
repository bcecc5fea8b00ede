"""Splits of one attribute's queries: their costs against dense least squares and the one-dimensional optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.queries.ranges import all_ranges, identity, prefix
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning.attribute_residuals import AttributeResidual
from tests.support.range_strategies import svd_bound


def width(size: int, wide: int) -> NDArray[np.int64]:
    starts, codes = np.arange(size - wide + 1)[:, None], np.arange(size)
    return ((starts <= codes) & (codes < starts + wide)).astype(np.int64)


FULL = {"prefix": prefix(20), "range": all_ranges(9), "nulls": prefix(12, 10)}
LEAST = {"width": width(16, 5), "few": np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0]])}
of_full = pytest.mark.parametrize("name", FULL)
of_all = pytest.mark.parametrize("name", FULL | LEAST)


@of_all
@pytest.mark.parametrize("gamma", [0.25, 16.0])
def test_a_split_is_the_optimum_of_the_queries_and_the_total(name: str, gamma: float) -> None:
    """Measured apart, with the best shares, the two cost as much as the best strategy for both together."""
    workload = (FULL | LEAST)[name]
    attribute = AttributeResidual(workload)
    split = attribute.split(gamma)
    best = gaussian_optimum(attribute.gram + gamma)
    result = (math.sqrt(split.mean + gamma) + math.sqrt(split.rest)) ** 2
    assert best.bound * (1 - 1e-9) <= result <= best.error * (1 + 1e-3)
    assert (split.factor**2).sum(axis=0).max() <= 1 + 1e-9
    assert attribute.split(gamma) is split


@of_all
@pytest.mark.parametrize("bits", [7, 13])
def test_integers_cost_what_dense_least_squares_says(name: str, bits: int) -> None:
    workload = (FULL | LEAST)[name]
    attribute = AttributeResidual(workload)
    split = attribute.split(2.0)
    frame = attribute.rounded_frame(split, bits)
    size = workload.shape[1]
    assert frame.matrix.dtype == np.int64
    assert frame.matrix.shape == (size - 1, size)
    assert np.abs(frame.matrix).max() <= 2**bits + 1
    mean, rest = attribute.costs(frame)
    centred = workload @ (np.eye(size) - frame.mean[:, None])
    inverse = np.linalg.pinv((frame.matrix.T @ frame.matrix).astype(np.float64), rcond=1e-12, hermitian=True)
    assert rest == pytest.approx(np.trace(centred @ inverse @ centred.T), rel=1e-6)
    assert mean == pytest.approx(((workload @ frame.mean) ** 2).sum(), rel=1e-6, abs=1e-9)
    norms = (frame.matrix**2).sum(axis=0)
    assert norms.max() == frame.cost
    if name in FULL:  # All columns have one norm, and rounding moves little.
        assert norms.min() > (1 - 0.02 * 2 ** (7 - bits)) * norms.max()
        assert rest * frame.cost == pytest.approx(split.rest, rel=0.02 * 2 ** (7 - bits))
        assert mean == pytest.approx(split.mean, rel=0.05 * 2 ** (7 - bits))


@pytest.mark.parametrize("workload", [identity(6), identity(8), np.vstack([identity(6)] * 2 + [np.ones((3, 6))])])
def test_values_that_are_all_alike(workload: NDArray[np.int64]) -> None:
    attribute = AttributeResidual(workload.astype(np.int64))
    assert attribute.uniform
    assert not attribute.flat
    size = workload.shape[1]
    frame = attribute.rounded_frame(None, 0)
    np.testing.assert_allclose(frame.mean, 1 / size)
    mean, rest = attribute.costs(frame)
    assert mean == pytest.approx(attribute.mean)
    assert rest * frame.cost == pytest.approx(attribute.rest)
    assert attribute.mean == pytest.approx((workload.sum(axis=1) ** 2).sum() / size**2)
    # With the total at no cost they are as good as the optimum.
    assert (math.sqrt(mean) + math.sqrt(attribute.rest)) ** 2 == pytest.approx(svd_bound(attribute.gram))


def test_queries_that_tell_no_values_apart() -> None:
    attribute = AttributeResidual(np.array([[1, 1, 1], [0, 0, 0], [1, 1, 1]]))
    assert attribute.flat
    assert attribute.mean == 2
    assert AttributeResidual(np.ones((1, 1), dtype=np.int64)).flat


@of_all
def test_the_lower_bound_is_the_dual_where_the_total_is_free(name: str) -> None:
    """tau + sigma at kappa 1, for the v of the optimum, is the root of the one-dimensional dual; any v is below."""
    attribute = AttributeResidual((FULL | LEAST)[name])
    best = gaussian_optimum(attribute.gram)
    split = attribute.split(attribute.grid_gamma(0.0, attribute.rest))
    sigma, tau = np.sqrt(attribute.lower_bound_terms(split.multipliers, 1.0))
    assert best.error * (1 - 2e-3) < (sigma + tau) ** 2 <= best.error
    generator = np.random.default_rng(0)
    for _ in range(20):
        v = generator.random(attribute.size)
        sigma, tau = np.sqrt(attribute.lower_bound_terms(v / v.sum(), 1.0))
        assert (sigma + tau) ** 2 <= best.error
    flat = np.full(attribute.size, 1 / attribute.size)
    sigma, tau = np.sqrt(attribute.lower_bound_terms(flat, 1.0))
    assert (sigma + tau) ** 2 == pytest.approx(svd_bound(attribute.gram))


def test_kappa_trades_one_for_the_other() -> None:
    attribute = AttributeResidual(prefix(20))
    v = attribute.split(4.0).multipliers
    pairs = np.sqrt([attribute.lower_bound_terms(v, kappa) for kappa in (0.25, 0.5, 1.0, 2.0, 4.0)])
    assert (np.diff(pairs[:, 0]) > 0).all()
    assert (np.diff(pairs[:, 1]) < 0).all()


def test_gammas_stand_on_a_grid_within_reach_of_the_residual() -> None:
    attribute = AttributeResidual(prefix(5))
    assert attribute.grid_gamma(2.05, 10.0) == 2.0
    assert attribute.grid_gamma(2.3, 10.0) == pytest.approx(2**1.25)
    assert attribute.grid_gamma(-3.0, 16.0) == 2.0**-6
    assert attribute.grid_gamma(1e9, 16.0) == 2.0**12


def test_too_many_values_are_refused() -> None:
    wide = np.zeros((1, 1025), dtype=np.int64)
    wide[0, :2] = 1
    with pytest.raises(ValueError, match=r"several values of an attribute of 1,025 values; want at most 1,024"):
        AttributeResidual(wide)
