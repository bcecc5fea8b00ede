"""From zero-concentrated to approximate differential privacy, always rounding towards more privacy loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy.optimize import minimize_scalar

from dpcore.kernel.budget import Budget

# Every figure is the minimum of a bound that holds at each alpha, so an inexact minimiser is safe; the slack covers
# the rounding of the float arithmetic itself.
_SLACK = 1e-9


def delta_of_zcdp(rho: float, epsilon: float) -> float:
    """Smallest delta that the optimal-alpha bound gives a rho-zCDP mechanism at epsilon.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12:
    delta <= min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.
    """
    if rho <= 0:
        return 0.0

    def log_delta(alpha: float) -> float:
        return (alpha - 1) * (alpha * rho - epsilon) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)

    return min(1.0, math.exp(min(0.0, _minimum_over_alpha(log_delta))) * (1 + _SLACK))


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Smallest epsilon that the optimal-alpha bound gives a rho-zCDP mechanism at delta; never below the true bound.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12 solved for epsilon.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; want 0 < delta < 1")
    if rho <= 0:
        return 0.0

    def epsilon(alpha: float) -> float:
        return alpha * rho - (math.log(delta) + math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return max(0.0, _minimum_over_alpha(epsilon) * (1 + _SLACK))


def zcdp_of(epsilon: float, delta: float) -> Fraction:
    """Largest rho, up to a relative 1e-9, whose guarantee at delta is at most epsilon."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon is {epsilon}; want a finite number > 0")
    low, high = 0.0, epsilon
    while epsilon_of_zcdp(high, delta) <= epsilon:  # Only for a delta near 1: else epsilon >= rho.
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of_zcdp(middle, delta) <= epsilon else (low, middle)
    return Fraction(low)


def budget_of(epsilon: float, delta: float) -> Budget:
    """The budget of an (epsilon, delta) target: pure when delta is 0, zCDP otherwise."""
    return Budget.pure(Fraction(str(epsilon))) if delta == 0 else Budget.zcdp(zcdp_of(epsilon, delta))


def _minimum_over_alpha(bound: Callable[[float], float]) -> float:
    """Minimum over alpha = 1 + exp(x), a scale on which the bounds are unimodal."""
    found = minimize_scalar(
        lambda x: bound(1 + math.exp(x)), bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun)
