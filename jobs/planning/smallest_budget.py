"""The smallest budget for which a mechanism can plan a release: with less, the release is refused before its charge."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import Final

from dpcore.errors import ConfigError
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.api import Mechanism, Plan
from dpcore.workload import Workload

_PRECISION: Final = 1.005  # Ratio of the ends of the interval that bisection leaves.

TermsAt = Callable[[float], PrivacyTerms]


def plan_within_budget(
    mechanism: Mechanism, workload: Workload, terms_at: TermsAt, epsilon: float, largest: float
) -> Plan:
    """The plan of a mechanism, if the budget of the release is large enough for it.

    mechanism: The mechanism with its settings.
    workload: The queries.
    terms_at: The terms of the mechanism's part of the budget, for an epsilon of the release. It raises ValueError when
        no budget can be computed.
    epsilon: Epsilon of the release.
    largest: The largest epsilon that a config accepts.

    Raises: ConfigError that names the smallest epsilon that works, or says why none does; every ConfigError of the
        mechanism.
    """
    try:
        return mechanism.plan(terms_at(epsilon), workload)
    except ValueError as error:
        smallest = smallest_epsilon(mechanism, workload, terms_at, epsilon, largest)
        if smallest is None:
            raise ConfigError(f"mechanism: {error}") from error
        raise ConfigError(
            f"privacy.epsilon is {epsilon:g}, which is too small for this mechanism and workload ({error}); want at "
            f"least {smallest:g}"
        ) from error


def smallest_epsilon(
    mechanism: Mechanism, workload: Workload, terms_at: TermsAt, epsilon: float, largest: float
) -> float | None:
    """The smallest epsilon for which there is a plan, rounded up to two digits; None if ``largest`` is too small.

    The arguments are those of ``plan_within_budget``; ``epsilon`` is known to be too small.
    """

    def works(candidate: float) -> bool:
        try:
            mechanism.plan(terms_at(candidate), workload)
        except ValueError:
            return False
        return True

    low, high = epsilon, largest
    if not works(high):
        return None
    while high / low > _PRECISION:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if works(middle) else (middle, high)
    return min(_rounded_up(high), largest)


def _rounded_up(number: float) -> float:
    """The number, rounded up to two significant digits."""
    exact = Decimal(number)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), rounding=ROUND_CEILING))
