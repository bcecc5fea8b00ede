"""Rounds, slope, records and noise of FEM and sepFEM, from public facts only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpcore.kernel.log_weights import LARGEST_SCORE
from dpcore.kernel.privacy_terms import PrivacyTerms

# Chosen on tabular/adult and tabular/loans with 64 random 3-way marginals at epsilon 0.1 and 1 (about 60 settings, two
# runs each); never changed by what a dataset holds.
_REGRET: Final = 1.4
_ORACLE_CALLS: Final = 100_000
_RECORDS: Final = (50, 200)
_MOST_ROUNDS: Final = 2000


@dataclass(frozen=True)
class Schedule:
    """Parameters of Algorithm 1.

    rounds: T, at least 2; after each but the last a query is selected.
    slope: Of the log-weight of a query in q(D) - q(D_t); the paper's epsilon_0 is its range,
        ``PrivacyTerms.draw_range``.
    records: s, of each round.
    scale: Of the perturbation, in weights of one query.
    """

    rounds: int
    slope: Fraction
    records: int
    scale: float


def schedule_for(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    queries: int,
    noise: float,
    *,
    rounds: int | None = None,
    records: int | None = None,
    spread: float = 0.0,
) -> Schedule:
    """The parameters that are not given; T - 1 selections of this slope use the amount up.

    The error of the average play is at most the sum of both players' average regrets (Theorem 5): c / sqrt(T) for the
    data player with c = 1.4, and log(2 m) / slope for the exponential mechanism over m queries and complements. The
    slope that the amount pays for falls with T, and T is where the sum is least: it grows like sqrt(rho) n / log(2 m).
    s is what 100,000 oracle calls leave for each round, between 50 and 200. The perturbation grows like sqrt(T), as
    regret wants it.

    amount: What the selections may cost, in the currency of the budget.
    total: Public or noisy number of units, >= 1.
    queries: Number of queries m.
    noise: Scale of the perturbation over sqrt(T).
    spread: Largest minus smallest public log-weight of a query.
    """
    # The sampler's proof wants scores within 2^12 powers of two.
    steepest = 0.99 * (LARGEST_SCORE * math.log(2.0) - spread)

    def regrets(candidate: int) -> float:
        slope = float(_affordable_slope(terms, amount, total, candidate - 1, steepest))
        return _REGRET / math.sqrt(candidate) + math.log(2 * queries) / max(slope, 1e-300)

    best = _minimum(regrets, _MOST_ROUNDS) if rounds is None else rounds
    slope = _affordable_slope(terms, amount, total, best - 1, steepest)
    if records is None:
        records = min(max(_ORACLE_CALLS // best, _RECORDS[0]), _RECORDS[1])
    return Schedule(best, slope, records, noise * math.sqrt(best))


def _affordable_slope(terms: PrivacyTerms, amount: Fraction, total: int, selections: int, steepest: float) -> Fraction:
    """The largest slope, as a double up to ``steepest``, of which the amount pays for so many selections; or 0."""
    low, high = 0.0, steepest
    if selections * terms.draws_amount(Fraction(high), total, 1) <= amount:
        return Fraction(high)
    while low < (middle := (low + high) / 2) < high:
        if selections * terms.draws_amount(Fraction(middle), total, 1) <= amount:
            low = middle
        else:
            high = middle
    return Fraction(low)


def _minimum(of: Callable[[int], float], largest: int) -> int:
    """Where a function of 2 .. largest that falls and then rises is least."""
    low, high = 2, largest
    while low < high:
        middle = (low + high) // 2
        if of(middle) <= of(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low
