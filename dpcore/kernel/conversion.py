"""From zero-concentrated or Gaussian to approximate differential privacy, always rounding towards more privacy loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy.optimize import minimize_scalar
from scipy.special import erfcx, ndtr

from dpcore.kernel.budget import Budget, Currency

# Every figure is the minimum of a bound that holds at each alpha, so an inexact minimiser is safe; the slack covers
# the rounding of the float arithmetic itself.
_SLACK = 1e-9
_LEAST_DELTA = 1e-300  # Smaller ones are lost to underflow.


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
    return epsilon_of_curve(lambda alpha: alpha * rho, delta)


def epsilon_of_curve(divergence: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon at delta of a mechanism whose Renyi divergence of each order alpha is ``divergence``, or less.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12, which holds at each order.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; want 0 < delta < 1")
    if divergence(2.0) <= 0:
        return 0.0

    def epsilon(alpha: float) -> float:
        return divergence(alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return max(0.0, _minimum_over_alpha(epsilon) * (1 + _SLACK))


def zcdp_of(epsilon: float, delta: float) -> Fraction:
    """Largest rho, up to a relative 1e-9, whose guarantee at delta is at most epsilon."""
    return Fraction(_largest(lambda rho: epsilon_of_zcdp(rho, delta) <= epsilon, _checked(epsilon)))


def delta_of_gdp(mu_squared: float, epsilon: float) -> float:
    """Delta of a mu-GDP mechanism at epsilon >= 0, exact up to rounding, and rounded up; below 1e-300 it may be 0.

    With a = mu/2 - epsilon/mu, b = a - mu: delta = Phi(a) - exp(epsilon) Phi(b). exp(epsilon) phi(b) = phi(a), so that
    the second term is phi(a) Phi(b) / phi(b), and Phi(b) / phi(b) = sqrt(pi / 2) erfcx(-b / sqrt(2)) never overflows.

    Rounding: a float error of u (a few 2^-53) in a moves Phi(a) by a relative |a| u or less, and the special functions
    are good to some 2^-50. Each term is moved by more than its own error, so that their difference is never too small.

    Source: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 1.
    """
    if mu_squared <= 0:
        return 0.0
    mu = math.sqrt(mu_squared)
    a, size = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    density = math.exp(-a * a / 2)
    first = float(ndtr(a)) if a > 0 else density * float(erfcx(-a / math.sqrt(2.0))) / 2
    second = density * float(erfcx(size / math.sqrt(2.0))) / 2
    error = 2.0**-48 + 2.0**-51 * (1 + abs(a)) * size
    return max(0.0, min(1.0, first * (1 + error) - second * (1 - error)))


def epsilon_of_gdp(mu_squared: float, delta: float) -> float:
    """Smallest epsilon >= 0 of a mu-GDP mechanism at delta, up to the rounding of ``delta_of_gdp``, rounded up."""
    _check_gdp_delta(delta)
    if delta_of_gdp(mu_squared, 0.0) <= delta:
        return 0.0
    low = _largest(lambda epsilon: delta_of_gdp(mu_squared, epsilon) > delta, 1.0)
    return math.nextafter(low, math.inf)


def gdp_of(epsilon: float, delta: float) -> Fraction:
    """Largest mu^2, up to the rounding of ``delta_of_gdp``, whose guarantee at epsilon is at most delta."""
    _check_gdp_delta(delta)
    return Fraction(_largest(lambda mu_squared: delta_of_gdp(mu_squared, epsilon) <= delta, _checked(epsilon)))


def budget_of(epsilon: float, delta: float, currency: Currency | None = None) -> Budget:
    """The budget of an (epsilon, delta) target; pure when delta is 0, zCDP otherwise where no currency is named."""
    wanted = currency or (Currency.PURE if delta == 0 else Currency.ZCDP)
    if (wanted is Currency.PURE) != (delta == 0):
        raise ValueError(f"delta is {delta} for a budget in {wanted}; want 0 for epsilon, more for rho and mu^2")
    match wanted:
        case Currency.PURE:
            return Budget.pure(Fraction(str(epsilon)))
        case Currency.ZCDP:
            return Budget.zcdp(zcdp_of(epsilon, delta))
        case Currency.GDP:
            return Budget.gdp(gdp_of(epsilon, delta))


def epsilon_of(budget: Budget, delta: float) -> float:
    """The epsilon that a budget guarantees at delta; a pure one guarantees its own at any."""
    match budget.currency:
        case Currency.PURE:
            return float(budget.amount)
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
    """The largest double for which ``holds``, which is true at 0 and false from some number on."""
    low, high = 0.0, guess
    while holds(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _minimum_over_alpha(bound: Callable[[float], float]) -> float:
    """Minimum over alpha = 1 + exp(x), a scale on which the bounds are unimodal."""
    minimum = minimize_scalar(
        lambda x: bound(1 + math.exp(x)), bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-9}
    )
    return float(minimum.fun)
