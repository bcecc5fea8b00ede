"""A tighter epsilon for runs whose every kernel call was fixed in advance: printed, never spent.

Renyi divergences of such events add up at every order, also where an event's question is chosen from earlier answers
(Mironov 2017, Proposition 1), and each order gives a bound: the best order may be chosen at the end. Where a parameter
follows from answers, what is charged next is not fixed, and only the filters of ``budget`` hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcore.kernel.conversion import epsilon_of_curve
from dpcore.kernel.events import Event, Loss

_SLACK = 1e-9
_ULPS = 2.0**-48
_SMALL = 0.01  # alpha epsilon below which the quadratic bounds are as good as the curves, and lose no digits.


def epsilon_of_events(events: Sequence[Event], delta: float) -> float:
    """Epsilon at delta of all events together, by the best order; never below the truth."""
    sizes = [(event.loss, float(event.size), event.count) for event in events]
    return epsilon_of_curve(
        lambda alpha: sum(count * divergence(loss, size, alpha) for loss, size, count in sizes), delta
    )


def divergence(loss: Loss, size: float, alpha: float) -> float:
    """Largest Renyi divergence of order alpha > 1 between neighbours, rounded up.

    Gaussian: alpha mu^2 / 2 (Mironov 2017, Proposition 7), and alpha rho for rho-zCDP by definition.
    """
    match loss:
        case Loss.GAUSSIAN:
            return alpha * size / 2
        case Loss.BOUNDED_RANGE:
            return _of_bounded_range(size, alpha)
        case Loss.PURE:
            return _of_pure(size, alpha)


def _of_bounded_range(epsilon: float, alpha: float) -> float:
    """The worst pair of coins of ``gaussian_dp``: log-ratios t and t - epsilon, for the worst t in closed form.

    With u = exp(-t) the moment E_Q (P/Q)^alpha is u^-alpha (B u - A), where A = (1 - exp(-(alpha - 1) epsilon)) /
    (exp(epsilon) - 1) and B = (1 - exp(-alpha epsilon)) / (1 - exp(-epsilon)). It is 1 at both ends of t and largest at
    u = alpha A / ((alpha - 1) B), where it is u^-alpha A / (alpha - 1). Never above alpha epsilon^2 / 8.
    """
    quadratic = alpha * epsilon**2 / 8
    if alpha * epsilon < _SMALL:
        return quadratic
    log_a = math.log(-math.expm1(-(alpha - 1) * epsilon)) - _log_expm1(epsilon)
    log_b = math.log(-math.expm1(-alpha * epsilon)) - math.log(-math.expm1(-epsilon))
    log_u = math.log(alpha / (alpha - 1)) + log_a - log_b
    bound = (log_a - math.log(alpha - 1) - alpha * log_u) / (alpha - 1) * (1 + _SLACK)
    # Logarithms near each other are subtracted and multiplied by alpha: their rounding is added on the safe side.
    rounding = _ULPS * (abs(log_a) + abs(log_b) + abs(math.log(alpha - 1)) + 1) * alpha / (alpha - 1)
    return min(quadratic, bound + rounding)


def _of_pure(epsilon: float, alpha: float) -> float:
    """Randomised response: log((exp(alpha eps) + exp((1 - alpha) eps)) / (1 + exp(eps))) / (alpha - 1).

    Never above alpha epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3).
    """
    quadratic = alpha * epsilon**2 / 2
    if alpha * epsilon < _SMALL:
        return quadratic
    moment = (alpha - 1) * epsilon + math.log1p(math.exp((1 - 2 * alpha) * epsilon)) - math.log1p(math.exp(-epsilon))
    return min(quadratic, moment / (alpha - 1) * (1 + _SLACK))


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x))
