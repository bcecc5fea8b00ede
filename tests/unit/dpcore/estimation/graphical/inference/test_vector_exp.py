"""The exponential against numpy's."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.graphical.inference.vector_exp import exp_of

ULP = 2.0**-53


def exponentials(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.full(values.size, 7.0)
    exp_of(values, 0.0, found)
    return found


def relative_error(values: NDArray[np.float64]) -> float:
    """The largest against mpmath's exponentials, with 30 digits."""
    with mpmath.workdps(30):
        pairs = zip(exponentials(values).tolist(), values.tolist(), strict=True)
        return max(float(abs(found / mpmath.exp(value) - 1)) for found, value in pairs)


@pytest.mark.parametrize("smallest", [-708.0, -40.0, -1.0, -1e-3, -1e-12])
def test_relative_error_is_below_four_units(smallest: float) -> None:
    values = np.random.default_rng(1).uniform(smallest, 0, 2_000)
    assert relative_error(values) < 4 * ULP


def test_values_at_the_edges_of_the_reduction() -> None:
    halves = -(np.arange(1000) + 0.5) * math.log(2)
    values = np.concatenate([np.nextafter(halves, -np.inf), halves, np.nextafter(halves, 0)])
    assert relative_error(values) < 4 * ULP


def test_zero_is_exactly_one_and_minus_infinity_exactly_zero() -> None:
    assert exponentials(np.array([0.0, -0.0, -np.inf])).tolist() == [1, 1, 0]


def test_what_is_called_zero() -> None:
    assert exponentials(np.array([-708.8, -745.0, -1e9, -1e300])).tolist() == [0, 0, 0, 0]
    assert exponentials(np.array([-708.6]))[0] == pytest.approx(math.exp(-708.6), rel=1e-14)


@pytest.mark.parametrize("shift", [700.0, -3.5, 0.25])
def test_a_shift(shift: float) -> None:
    values = np.array([shift, shift - 1.5, -np.inf])
    found = np.empty(3)
    exp_of(values, shift, found)
    np.testing.assert_allclose(found, [1, math.exp(-1.5), 0], rtol=1e-15)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 15, 16, 17, 1500])
def test_every_length(size: int) -> None:
    values = -np.linspace(0, 30, size)
    assert np.allclose(exponentials(values), np.exp(values), rtol=1e-14, atol=0)


def test_views_leave_their_neighbours_and_one_array_may_be_both() -> None:
    values = np.array([-1.0, -2.0, -3.0])
    exp_of(values[1:2], 0.0, values[1:2])
    assert values[[0, 2]].tolist() == [-1, -3]
    assert values[1] == pytest.approx(math.exp(-2), rel=1e-15)
