"""Quasi-Newton descent on functions whose minima are known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from dpcore.estimation.graphical.fitting.quasi_newton import descend

Vector = NDArray[np.float64]
Function = Callable[[Vector], tuple[float, Vector]]


def quadratic(seed: int, size: int, condition: float) -> tuple[Function, Vector]:
    """A convex quadratic with this condition number, and its minimum."""
    generator = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(generator.normal(size=(size, size)))
    hessian = rotation @ np.diag(np.geomspace(1, condition, size)) @ rotation.T
    lowest = generator.normal(size=size)

    def function(point: Vector) -> tuple[float, Vector]:
        slope = hessian @ (point - lowest)
        return 0.5 * float(slope @ (point - lowest)) + 7.0, slope

    return function, lowest


def logistic(point: Vector) -> tuple[float, Vector]:
    """log(1 + exp(x)) - x / 3, smooth and nearly linear far away; lowest at log(1/2)."""
    values = np.logaddexp(0, point) - point / 3
    return float(values.sum()), expit(point) - 1 / 3


def small(_: float, slope: Vector) -> bool:
    return float(np.abs(slope).max()) < 1e-9


def never(_: float, __: Vector) -> bool:
    return False


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_the_minimum_of_a_quadratic(seed: int, condition: float) -> None:
    function, lowest = quadratic(seed, 12, condition)
    found, _, evaluations = descend(function, np.zeros(12), np.ones(12), small, 2000)
    np.testing.assert_allclose(found, lowest, atol=1e-7)
    assert evaluations < 2000


@pytest.mark.parametrize("start", [-300.0, -2.0, 0.0, 50.0, 500.0])
def test_a_minimum_after_a_long_straight_slope(start: float) -> None:
    found, _, evaluations = descend(logistic, np.full(3, start), np.ones(3), small, 2000)
    np.testing.assert_allclose(found, np.log(0.5), atol=1e-7)
    assert evaluations < 60


def test_scales_make_a_stretched_function_easy() -> None:
    stretch = np.geomspace(1e-6, 1e6, 12)

    def function(point: Vector) -> tuple[float, Vector]:
        value, slope = logistic(point * stretch)
        return value, slope * stretch

    found, _, evaluations = descend(function, np.zeros(12), 1 / stretch, small, 1000)
    np.testing.assert_allclose(found * stretch, np.log(0.5), atol=1e-7)
    _, _, without = descend(function, np.zeros(12), np.ones(12), small, 1000)
    assert evaluations < 50 < without


def test_a_gradient_that_is_wrong_ends_the_search() -> None:
    """No step along it lowers the function: it stops where it started instead of spending all evaluations."""

    def wrong(point: Vector) -> tuple[float, Vector]:
        return float(np.abs(point - 3).sum()), -np.sign(point - 3)

    found, _, evaluations = descend(wrong, np.zeros(2), np.ones(2), never, 1000)
    assert evaluations < 100
    np.testing.assert_allclose(found, 0, atol=1e-9)


def test_the_value_never_rises() -> None:
    function, _ = quadratic(1, 12, 1e5)
    values = [function(descend(function, np.ones(12), np.ones(12), never, most)[0])[0] for most in range(1, 60)]
    assert all(after <= before + 1e-12 * before for before, after in pairwise(values))
    assert values[-1] < 1e-2 * values[0] + 7


@pytest.mark.parametrize("most", [1, 2, 3, 17])
def test_evaluations_are_counted_and_limited(most: int) -> None:
    function, _ = quadratic(2, 12, 1e6)
    called = 0

    def counted(point: Vector) -> tuple[float, Vector]:
        nonlocal called
        called += 1
        return function(point)

    _, _, evaluations = descend(counted, np.ones(12), np.ones(12), never, most)
    assert called == evaluations == most


def test_a_start_that_is_good_enough_is_returned() -> None:
    function, lowest = quadratic(3, 12, 10.0)
    found, _, evaluations = descend(function, lowest, np.ones(12), small, 100)
    assert evaluations == 1
    np.testing.assert_array_equal(found, lowest)


def test_it_ends_at_a_minimum_that_nothing_can_stop() -> None:
    """Where rounding hides all progress, the work limit holds."""
    function, lowest = quadratic(4, 5, 10.0)
    found, _, evaluations = descend(function, lowest, np.ones(5), never, 300)
    assert evaluations == 300
    np.testing.assert_allclose(found, lowest, atol=1e-5)
