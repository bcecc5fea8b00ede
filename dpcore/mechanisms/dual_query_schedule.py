"""Step size, samples and rounds of DualQuery, from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpcore.kernel.budget import Currency
from dpcore.kernel.terms import Terms
from dpcore.kernel.weighted_sampler import LARGEST_SCORE
from dpcore.queries import Conjunctions

LARGEST_SAMPLES = 50_000


@dataclass(frozen=True)
class Defaults:
    """Where nothing is set: the step size, and samples as a fraction of the rounds."""

    eta: float
    samples_a_round: float


# Compromises between public research datasets (one or two runs of each of some tens of settings on KDD99, Adult, NLTCS,
# Loans and baskets), never changed by what a dataset holds; not the best setting for any of them. Errors on those
# datasets therefore flatter the defaults. A record satisfies about as many queries as were sampled: sparse baskets
# satisfy few and did better with few samples and large steps, dense data and negated literals with more samples.
GENERAL = Defaults(eta=1.0, samples_a_round=0.5)
SPARSE = Defaults(eta=2.0, samples_a_round=0.05)


@dataclass(frozen=True)
class Schedule:
    """Parameters of Algorithm 2.

    eta: Step size of the multiplicative weights.
    samples: s, queries drawn in each round.
    rounds: T, and so the number of records; answers are multiples of total / T.
    """

    eta: float
    samples: int
    rounds: int


def defaults_for(queries: Conjunctions) -> Defaults:
    """SPARSE for positive conjunctions of items, GENERAL for tables and where literals may be negated."""
    return GENERAL if queries.view.groups or queries.negated.any() else SPARSE


def schedule_for(
    terms: Terms,
    amount: Fraction,
    total: int,
    defaults: Defaults,
    *,
    eta: float | None = None,
    samples: int | None = None,
    rounds: int | None = None,
    spread: float = 0.0,
) -> Schedule:
    """The parameters that are not given, and the most rounds that ``amount`` pays for.

    Without samples, s is about c T with c = defaults.samples_a_round. Let r be the range of a draw of slope 1:
    1 / total, and twice that where a unit is replaced. Let b be the cost of one draw of range eta r: under pure DP
    eta r, and the cost of all is s b T^2 / 2, so that T^3 = 2 epsilon / b / c; under zCDP and Gaussian DP (eta r)^2
    times 1/8 and about pi/8, and the cost of all is s b T^3 / 3, so that T^4 = 3 amount / b / c.

    amount: What the draws may cost, in the currency of the budget.
    total: Public or noisy number of units, >= 1.
    rounds: At most so many.
    spread: Largest minus smallest log-weight of the first round.
    """
    eta = defaults.eta if eta is None else eta
    # The sampler's proof wants scores within 2^12 powers of two; a log-weight moves by at most eta a round.
    limit = 1 + max(0, int((LARGEST_SCORE * math.log(2.0) - spread) / eta))
    limit = limit if rounds is None else min(limit, rounds)
    if samples is None:
        wanted = max(2, min(limit, int(_balanced_rounds(terms, amount, total, eta, defaults.samples_a_round))))
        cost = sum(terms.draws_amount(slope_of_round(eta, t), total, 1) for t in range(1, wanted + 1))
        samples = max(1, min(int(amount / cost), LARGEST_SAMPLES))
    return Schedule(eta, samples, affordable_rounds(terms, amount, total, eta, samples, limit))


def affordable_rounds(terms: Terms, amount: Fraction, total: int, eta: float, samples: int, limit: int) -> int:
    """The most rounds, up to ``limit``, whose draws cost at most ``amount``; the first costs nothing."""
    rounds, left = 0, amount
    while rounds < limit:
        left -= terms.draws_amount(slope_of_round(eta, rounds + 1), total, samples)
        if left < 0:
            break
        rounds += 1
    return rounds


def slope_of_round(eta: float, t: int) -> Fraction:
    """Slope of the log-weights in c / total at round t = 1, 2, ...: eta (t - 1)."""
    return Fraction(eta) * (t - 1)


def theoretical_parameters(alpha: float, beta: float, queries: int, log_universe: float) -> Schedule:
    """Parameters with which every answer is within ``alpha`` of the total, with probability at least 1 - beta.

    queries: Number of queries, without their complements.
    log_universe: Natural logarithm of the number of possible records.

    Source: full DualQuery paper, Algorithm 2 and Theorem 4.6. The bound is a worst case: it needs far more budget than
    the errors seen in practice.
    """
    rounds = math.ceil(16 * math.log(2 * queries) / alpha**2)
    samples = math.ceil(48 * (math.log(2 * rounds / beta) + log_universe) / alpha**2)
    return Schedule(alpha / 4, samples, rounds)


def _balanced_rounds(terms: Terms, amount: Fraction, total: int, eta: float, samples_a_round: float) -> float:
    step = float(terms.draws_amount(Fraction(eta), total, 1))
    if terms.budget.currency is Currency.PURE:
        return float((2 * float(amount) / step / samples_a_round) ** (1 / 3))
    return float((3 * float(amount) / step / samples_a_round) ** (1 / 4))
