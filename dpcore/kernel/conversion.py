"""Conversions between zCDP or Gaussian DP and (epsilon, delta)-DP, rounded towards more privacy loss. TRUSTED.

A conversion to (epsilon, delta) is never below the proved bound. A conversion to a budget is never above the largest
one that meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy.special import erfcx, ndtr

from dpcore.kernel.budget import Budget, Currency

# The bounds for zCDP hold at every order alpha, so an inexact minimum over alpha is still a valid bound. The slack
# covers the rounding errors of floating-point arithmetic.
_SLACK = 1e-9
_LEAST_DELTA = 1e-300  # Smaller values of delta would underflow.


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Bound on epsilon at delta for every rho-zCDP mechanism, minimised over the order alpha and rounded up.

    Raises ValueError unless 0 < delta < 1.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12 solved for epsilon.
    """
    return epsilon_of_curve(lambda alpha: alpha * rho, delta)


def epsilon_of_curve(divergence: Callable[[float], float], delta: float) -> float:
    """Bound on epsilon at delta for every mechanism with a given curve of Renyi divergences, rounded up.

    divergence: Upper bound on the Renyi divergence of order alpha between neighbours, as a function of alpha > 1.

    Raises ValueError unless 0 < delta < 1.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12, which holds at every order.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; want 0 < delta < 1")
    if divergence(2.0) <= 0:
        return 0.0

    def epsilon(alpha: float) -> float:
        return divergence(alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return max(0.0, _minimum_over_alpha(epsilon) * (1 + _SLACK))


def zcdp_of(epsilon: float, delta: float) -> Fraction:
    """Largest rho, within a relative 1e-9 and never above it, that implies (epsilon, delta)-DP.

    Raises ValueError unless epsilon is finite and positive and 0 < delta < 1.
    """
    return Fraction(_largest(lambda rho: epsilon_of_zcdp(rho, delta) <= epsilon, _checked(epsilon)))


def delta_of_gdp(mu_squared: float, epsilon: float) -> float:
    """Smallest delta at epsilon >= 0 for every mu-GDP mechanism, rounded up; values below 1e-300 may underflow to 0.

    With a = mu/2 - epsilon/mu and b = a - mu, delta = Phi(a) - exp(epsilon) Phi(b). Because exp(epsilon) phi(b) =
    phi(a), the second term equals phi(a) Phi(b) / phi(b), and Phi(b) / phi(b) = sqrt(pi / 2) erfcx(-b / sqrt(2)) never
    overflows.

    Rounding: a relative error u (a few 2^-53) of a moves Phi(a) by a relative |a| u or less, and the special functions
    have relative errors of about 2^-50. The first term is raised and the second lowered by more than these errors, so
    their difference is never too small.

    Source: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 1.
    """
    if mu_squared <= 0:
        return 0.0
    mu = math.sqrt(mu_squared)
    a, minus_b = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    density = math.exp(-a * a / 2)
    first = float(ndtr(a)) if a > 0 else density * float(erfcx(-a / math.sqrt(2.0))) / 2
    second = density * float(erfcx(minus_b / math.sqrt(2.0))) / 2
    error = 2.0**-48 + 2.0**-51 * (1 + abs(a)) * minus_b
    return max(0.0, min(1.0, first * (1 + error) - second * (1 - error)))


def epsilon_of_gdp(mu_squared: float, delta: float) -> float:
    """Smallest epsilon >= 0 at delta for every mu-GDP mechanism, rounded up as ``delta_of_gdp`` is.

    Raises ValueError unless 1e-300 <= delta < 1.
    """
    _check_gdp_delta(delta)
    if delta_of_gdp(mu_squared, 0.0) <= delta:
        return 0.0
    low = _largest(lambda epsilon: delta_of_gdp(mu_squared, epsilon) > delta, 1.0)
    return math.nextafter(low, math.inf)


def gdp_of(epsilon: float, delta: float) -> Fraction:
    """Largest mu^2 that implies (epsilon, delta)-DP, rounded down as ``delta_of_gdp`` rounds up.

    Raises ValueError unless epsilon is finite and positive and 1e-300 <= delta < 1.
    """
    _check_gdp_delta(delta)
    return Fraction(_largest(lambda mu_squared: delta_of_gdp(mu_squared, epsilon) <= delta, _checked(epsilon)))


def budget_of(epsilon: float, delta: float, currency: Currency | None = None) -> Budget:
    """The largest budget that implies (epsilon, delta)-DP.

    currency: The currency of the budget. By default, pure DP for delta 0 and zCDP otherwise.

    Raises ValueError for pure DP with a delta above 0, for another currency with delta 0, and for values out of range.
    """
    chosen = currency or (Currency.PURE if delta == 0 else Currency.ZCDP)
    if (chosen is Currency.PURE) != (delta == 0):
        raise ValueError(f"delta is {delta} for a budget in {chosen}; want 0 for epsilon, more for rho and mu^2")
    match chosen:
        case Currency.PURE:
            return Budget.pure(Fraction(str(epsilon)))
        case Currency.ZCDP:
            return Budget.zcdp(zcdp_of(epsilon, delta))
        case Currency.GDP:
            return Budget.gdp(gdp_of(epsilon, delta))


def epsilon_of(budget: Budget, delta: float) -> float:
    """The epsilon that a budget implies at delta. A pure budget implies its own epsilon at every delta."""
    match budget.currency:
        case Currency.PURE:
            epsilon = float(budget.amount)
            return epsilon if epsilon >= budget.amount else math.nextafter(epsilon, math.inf)
        case Currency.ZCDP:
            return epsilon_of_zcdp(float(budget.amount), delta)
        case Currency.GDP:
            return epsilon_of_gdp(float(budget.amount), delta)


def _check_gdp_delta(delta: float) -> None:
    if not _LEAST_DELTA <= delta < 1:
        raise ValueError(f"delta is {delta}; want {_LEAST_DELTA:g} <= delta < 1")


def _checked(epsilon: float) -> float:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon is {epsilon}; want a finite number > 0")
    return epsilon


def _largest(holds: Callable[[float], bool], guess: float) -> float:
    """The largest double for which ``holds``, a predicate that is true at 0 and false beyond some threshold."""
    low, high = 0.0, guess
    while holds(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _minimum_over_alpha(bound: Callable[[float], float]) -> float:
    """Minimum over alpha > 1, searched in x with alpha = 1 + exp(x); the bounds are unimodal in x."""
    from scipy.optimize import minimize_scalar  # Slow to import, and most plans do not need it.

    minimum = minimize_scalar(
        lambda x: bound(1 + math.exp(x)), bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-9}
    )
    return float(minimum.fun)
