"""Rounds, slope, records and noise of FEM and sepFEM, derived from public facts only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpcore.kernel.log_weights import LARGEST_SCORE
from dpcore.kernel.privacy_terms import PrivacyTerms

# These were chosen on tabular/adult and tabular/loans with 64 random 3-way marginals at epsilon 0.1 and 1 (about 60
# settings, two runs each). They never depend on the content of a dataset.
_REGRET: Final = 1.4  # The data player's average regret times sqrt(T).
_ORACLE_CALLS: Final = 100_000
_RECORDS: Final = (50, 200)
_MAX_ROUNDS: Final = 2000


@dataclass(frozen=True)
class FemParameters:
    """Parameters of Algorithm 1 of Vietri et al. (2020).

    rounds: T, at least 2. After each round but the last a query is selected.
    slope: Slope of a query's log-weight in q(D) - q(D_t). The paper's epsilon_0 is the range of such a selection,
        ``PrivacyTerms.draw_range``.
    records: s, the number of records per round.
    scale: Scale of the noise that perturbs the records, in weights of one query.
    """

    rounds: int
    slope: Fraction
    records: int
    scale: float


def fem_parameters(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    queries: int,
    noise: float,
    *,
    rounds: int | None = None,
    records: int | None = None,
    prior_spread: float = 0.0,
) -> FemParameters:
    """Completes the parameters, with the slope for which T - 1 selections use up the amount.

    The error of the average play is at most the sum of both players' average regrets (Theorem 5): c / sqrt(T) for the
    data player with c = 1.4, and log(2 m) / slope for the exponential mechanism over m queries and their complements.
    The slope that the amount pays for falls with T. T minimises the sum: it grows like sqrt(rho) n / log(2 m).
    s divides 100,000 oracle calls among the rounds, with 50 to 200 records per round. The noise grows like sqrt(T), as
    the regret bound requires.

    terms: The privacy terms of the release.
    amount: What the selections may cost, in the currency of the budget.
    total: The public or noisy number of units, at least 1.
    queries: The number m of queries.
    noise: The scale of the noise divided by sqrt(T).
    rounds: The number of rounds, or None.
    records: The number of records per round, or None.
    prior_spread: The largest minus the smallest public log-weight of a query.
    """
    # The sampler's proof covers scores of up to 2^12 powers of two.
    steepest = 0.99 * (LARGEST_SCORE * math.log(2.0) - prior_spread)

    def sum_of_regrets(candidate: int) -> float:
        slope = float(_affordable_slope(terms, amount, total, candidate - 1, steepest))
        return _REGRET / math.sqrt(candidate) + math.log(2 * queries) / max(slope, 1e-300)

    best = _minimum(sum_of_regrets, _MAX_ROUNDS) if rounds is None else rounds
    slope = _affordable_slope(terms, amount, total, best - 1, steepest)
    if records is None:
        records = min(max(_ORACLE_CALLS // best, _RECORDS[0]), _RECORDS[1])
    return FemParameters(best, slope, records, noise * math.sqrt(best))


def _affordable_slope(terms: PrivacyTerms, amount: Fraction, total: int, selections: int, steepest: float) -> Fraction:
    """The largest slope, at most ``steepest`` and a double, at which the amount pays for the selections; else 0."""
    low, high = 0.0, steepest
    if selections * terms.draws_amount(Fraction(high), total, 1) <= amount:
        return Fraction(high)
    while low < (middle := (low + high) / 2) < high:
        if selections * terms.draws_amount(Fraction(middle), total, 1) <= amount:
            low = middle
        else:
            high = middle
    return Fraction(low)


def _minimum(objective: Callable[[int], float], largest: int) -> int:
    """The minimiser over 2 .. largest of a function that first falls and then rises."""
    low, high = 2, largest
    while low < high:
        middle = (low + high) // 2
        if objective(middle) <= objective(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low
