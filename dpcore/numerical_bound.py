"""A tighter epsilon by Renyi accounting, for runs whose kernel calls are all fixed in advance: printed, never spent.

The Renyi divergences of such events add up at every order, even when the queries of an event are chosen from earlier
answers (Mironov 2017, Proposition 1). Every order gives a valid bound on epsilon, so the best order may be chosen at
the end. When the kind, the size or the number of the calls follows from answers, the divergences are not fixed in
advance, and only the filters of ``kernel.budget`` apply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcore.kernel.conversion import epsilon_of_curve
from dpcore.kernel.events import Event, Loss

_SLACK = 1e-9  # Relative amount by which bounds are raised.
_ULPS = 2.0**-48  # Relative error that logarithms are assumed to have; it is larger than their real error.
_SMALL = 0.01  # Below this alpha * epsilon the quadratic bounds are nearly as tight, and lose no digits.


def epsilon_of_events(events: Sequence[Event], delta: float) -> float:
    """Upper bound on epsilon at delta for all events together, minimised over the Renyi order.

    events: All kernel calls of the run, fixed before the run began.
    delta: In (0, 1).

    Raises ValueError for a delta out of range.

    Source: Mironov (2017), Proposition 1, for composition; Canonne, Kamath and Steinke (2020), Proposition 12, for the
        conversion.
    """
    sizes = [(event.loss, float(event.size), event.count) for event in events]
    return epsilon_of_curve(
        lambda alpha: sum(count * divergence(loss, size, alpha) for loss, size, count in sizes), delta
    )


def divergence(loss: Loss, size: float, alpha: float) -> float:
    """Upper bound on the Renyi divergence of order alpha between neighbours, for one mechanism.

    loss: The kind of bound on the privacy loss.
    size: The size of that bound, as ``Loss`` defines it.
    alpha: The order, above 1.

    Source: for a Gaussian mechanism, alpha mu^2 / 2 by Mironov (2017), Proposition 7; for a rho-zCDP mechanism, alpha
        rho by definition; for the others see ``_of_bounded_range`` and ``_of_pure``.
    """
    match loss:
        case Loss.GAUSSIAN:
            return alpha * size / 2
        case Loss.BOUNDED_RANGE:
            return _of_bounded_range(size, alpha)
        case Loss.PURE:
            return _of_pure(size, alpha)


def _of_bounded_range(epsilon: float, alpha: float) -> float:
    """Divergence of the worst mechanism of bounded range epsilon, in closed form.

    The worst case is a pair of coins with log-ratios t and t - epsilon (``gaussian_dp.gdp_of_bounded_range``). With
    u = exp(-t) the moment E_Q (P/Q)^alpha is u^-alpha (B u - A), where A = (1 - exp(-(alpha - 1) epsilon)) /
    (exp(epsilon) - 1) and B = (1 - exp(-alpha epsilon)) / (1 - exp(-epsilon)). It is 1 for t = 0 and t = epsilon, and
    largest at u = alpha A / ((alpha - 1) B), where it equals u^-alpha A / (alpha - 1). The divergence is never above
    alpha epsilon^2 / 8.
    """
    quadratic = alpha * epsilon**2 / 8
    if alpha * epsilon < _SMALL:
        return quadratic
    log_a = math.log(-math.expm1(-(alpha - 1) * epsilon)) - _log_expm1(epsilon)
    log_b = math.log(-math.expm1(-alpha * epsilon)) - math.log(-math.expm1(-epsilon))
    log_u = math.log(alpha / (alpha - 1)) + log_a - log_b
    bound = (log_a - math.log(alpha - 1) - alpha * log_u) / (alpha - 1) * (1 + _SLACK)
    # Logarithms of similar size are subtracted and multiplied by alpha, so a bound on their rounding error is added.
    rounding = _ULPS * (abs(log_a) + abs(log_b) + abs(math.log(alpha - 1)) + 1) * alpha / (alpha - 1)
    return min(quadratic, bound + rounding)


def _of_pure(epsilon: float, alpha: float) -> float:
    """Divergence of randomised response, the worst epsilon-DP mechanism.

    It is log((exp(alpha epsilon) + exp((1 - alpha) epsilon)) / (1 + exp(epsilon))) / (alpha - 1), and never above
    alpha epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3).
    """
    quadratic = alpha * epsilon**2 / 2
    if alpha * epsilon < _SMALL:
        return quadratic
    moment = (alpha - 1) * epsilon + math.log1p(math.exp((1 - 2 * alpha) * epsilon)) - math.log1p(math.exp(-epsilon))
    return min(quadratic, moment / (alpha - 1) * (1 + _SLACK))


def _log_expm1(x: float) -> float:
    """log(exp(x) - 1) for x > 0, without overflow."""
    return x + math.log(-math.expm1(-x))
