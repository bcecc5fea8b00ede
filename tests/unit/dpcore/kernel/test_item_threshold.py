from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore.kernel.budget import Budget
from dpcore.kernel.item_threshold import (
    LARGEST_BOUND,
    epsilon_with_threshold_delta,
    squared_norm,
    tail,
    threshold_steps,
    weights_of,
    without_threshold_delta,
)

ONE = 1 << 16
BOUNDS = [1, 2, 3, 10, 100, 5_000]


def chance_of_a_new_item(threshold: int, weight: int, items: int, sigma: float) -> mpmath.mpf:
    """Exact threshold_delta that a rounded Gaussian lifts any of ``items`` new items over the threshold."""
    below = mpmath.ncdf((mpmath.mpf(threshold) - mpmath.mpf(1) / 2 - weight) / sigma)
    return 1 - below**items


@pytest.mark.parametrize("bound", BOUNDS)
def test_weights_are_the_largest_with_a_norm_of_one(bound: int) -> None:
    weights = weights_of(bound).tolist()
    assert weights[0] == 0
    assert weights[1] == ONE
    for items, weight in enumerate(weights[1:], 1):
        assert items * weight**2 <= ONE**2 < items * (weight + 1) ** 2
    assert squared_norm(weights_of(bound)) == ONE**2


@pytest.mark.parametrize("bound", [0, -1, LARGEST_BOUND + 1])
def test_bounds_out_of_range_are_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="items"):
        weights_of(bound)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("threshold_delta", [Fraction(1, 2), Fraction(1, 100), Fraction(1, 10**7), Fraction(1, 10**15)])
@pytest.mark.parametrize(("scale", "steps"), [(3.3 * ONE, 1024), (0.2 * ONE, 1), (1.0, 1), (200.5 * ONE, 1024)])
def test_no_unit_alone_exceeds_the_threshold_more_often_than_promised(
    bound: int, threshold_delta: Fraction, scale: float, steps: int
) -> None:
    weights = weights_of(bound)
    threshold = threshold_steps(weights, scale, steps, threshold_delta)
    with mpmath.workdps(60):
        exact = [
            chance_of_a_new_item(threshold, int(weights[items]) * steps, items, scale * steps)
            for items in {1, 2, 3, bound // 2, bound} & set(range(1, bound + 1))
        ]
        assert all(value <= mpmath.mpf(threshold_delta.numerator) / threshold_delta.denominator for value in exact)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_threshold_is_no_higher_than_the_union_bound_needs(bound: int) -> None:
    weights, sigma, threshold_delta = weights_of(bound), 4.0 * ONE * 1024, Fraction(1, 10**7)
    threshold = threshold_steps(weights, 4.0 * ONE, 1024, threshold_delta)
    lower = threshold - int(1e-4 * sigma)
    with mpmath.workdps(60):
        worst = max(
            items * mpmath.ncdf((int(weights[items]) * 1024 - lower) / mpmath.mpf(sigma))
            for items in range(1, bound + 1)
        )
        assert worst > mpmath.mpf(1) / 10**7


def test_tail_is_an_upper_bound() -> None:
    points = np.linspace(-3, 37, 400)
    with mpmath.workdps(60):
        for point, bound in zip(points.tolist(), tail(points).tolist(), strict=True):
            exact = mpmath.ncdf(-mpmath.mpf(point))
            assert exact <= bound <= exact * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize("threshold_delta", [Fraction(0), Fraction(-1), Fraction(2, 3), Fraction(1, 1 << 1001)])
def test_chances_out_of_range_are_refused(threshold_delta: Fraction) -> None:
    with pytest.raises(ValueError, match="probability"):
        threshold_steps(weights_of(3), 1000.0, 1, threshold_delta)


@pytest.mark.parametrize("threshold_delta", [1e-12, 1e-7, 1e-3, 0.1, 0.5])
def test_the_last_step_of_the_proof(threshold_delta: float) -> None:
    assert 1 - threshold_delta >= math.exp(-2 * threshold_delta)


def test_thresholds_that_together_exceed_a_half_have_no_proof() -> None:
    """1 - t >= exp(-2 t), on which the claim rests, fails from about 0.8 on: one release of 1/4 after another."""
    assert math.exp(-2 * 0.85) > 1 - 0.85
    assert without_threshold_delta(9.0, 0.99, Fraction(1, 2))[1] > 0
    with pytest.raises(ValueError, match="at most 1/2"):
        without_threshold_delta(9.0, 0.99, Fraction(17, 20))
    with pytest.raises(ValueError, match="at most 1/2"):
        epsilon_with_threshold_delta(Budget.gdp(1), 0.99, Fraction(17, 20))
