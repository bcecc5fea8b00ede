"""Step size, samples and rounds of DualQuery and DQRS, from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from dpcore.kernel.log_weights import LARGEST_SCORE
from dpcore.kernel.privacy_terms import PrivacyTerms, bounded_range_cost
from dpcore.queries import Conjunctions, CountingQueries

LARGEST_SAMPLES = 50_000
_TYPICAL_ROUND = 64
# A drawn query that the new record satisfies is kept with chance about exp(-2 eta), another with about exp(-eta): one
# that was drawn is likelier to be satisfied than not. On every dataset tried the logarithm of what is kept was between
# -1.0 and -1.2 times eta, gamma aside.
LOST_A_STEP = 1.1


@dataclass(frozen=True)
class Defaults:
    """Where nothing is set: the step size, and samples as a multiple of eta T, the slope that the rounds lead to."""

    eta: float
    samples_a_slope: float


@dataclass(frozen=True)
class Family:
    """Defaults of a mechanism for tables and negated literals, and for positive conjunctions of items.

    A record satisfies about as many queries as were drawn: sparse baskets satisfy few and did better with few samples
    and large steps, dense data and negated literals with more samples.
    """

    general: Defaults
    sparse: Defaults

    def of(self, queries: CountingQueries) -> Defaults:
        positive = isinstance(queries, Conjunctions) and not queries.view.groups and not queries.negated.any()
        return self.sparse if positive else self.general


DUAL_QUERY = Family(general=Defaults(0.7, 0.5), sparse=Defaults(2.0, 0.025))
DQRS = Family(general=Defaults(0.2, 0.5), sparse=Defaults(0.5, 0.025))


@dataclass(frozen=True)
class Schedule:
    """Parameters of Algorithm 2.

    eta: Step size of the multiplicative weights.
    samples: s, queries drawn in each round.
    rounds: T, and so the number of records. Of DQRS what is expected: there chance decides what rounds cost.
    longer: So many last rounds draw one query more: what whole samples leave of the budget.
    """

    eta: float
    samples: int
    rounds: int
    longer: int = 0

    def size(self, t: int) -> int:
        """Queries drawn in round t = 1, 2, ..."""
        return self.samples + (t > self.rounds - self.longer)


def schedule_for(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    defaults: Defaults,
    *,
    eta: float | None = None,
    samples: int | None = None,
    rounds: int | None = None,
    spread: float = 0.0,
) -> Schedule:
    """The parameters of DualQuery that are not given, and the most rounds that ``amount`` pays for.

    Without samples, s is c eta T for c = defaults.samples_a_slope: T is the largest for which so many samples can be
    paid, and s then what the amount pays for T rounds. Let r be the range of a draw of slope 1 (1 / total, and twice
    that where a unit is replaced). Under pure DP a draw of round t costs eta r (t - 1), so that all cost
    c eta^2 r T^3 / 2; under zCDP (eta r (t - 1))^2 / 8, so that all cost c eta^3 r^2 T^4 / 24; under Gaussian DP about
    pi times that.

    amount: What the draws may cost, in the currency of the budget.
    total: Public or noisy number of units, >= 1.
    rounds: At most so many.
    spread: Largest minus smallest log-weight of the first round.
    """
    eta = defaults.eta if eta is None else eta
    limit = most_rounds(eta, spread, rounds)
    if samples is None:
        wanted = _balanced(draw_costs(terms, total, eta, limit), float(amount), eta * defaults.samples_a_slope)
        cost = sum(terms.draws_amount(slope_of_round(eta, t), total, 1) for t in range(1, wanted + 1))
        samples = LARGEST_SAMPLES if cost == 0 else max(1, min(int(amount / cost), LARGEST_SAMPLES))
        longest = affordable_rounds(terms, amount, total, eta, samples, limit)
        return Schedule(eta, samples, longest, _longer_rounds(terms, amount, total, eta, samples, longest))
    return Schedule(eta, samples, affordable_rounds(terms, amount, total, eta, samples, limit))


def rejection_schedule(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    defaults: Defaults,
    *,
    eta: float | None = None,
    samples: int | None = None,
    rounds: int | None = None,
    spread: float = 0.0,
) -> Schedule:
    """The parameters of DQRS that are not given, and the rounds that are to be expected of them.

    As ``schedule_for``, with the expected cost of a round: s acceptance bits, and fresh draws for the expected fraction
    1 - exp(-gamma - LOST_A_STEP eta) of rejected ones. With small eta rounds become many and cheap in proportion, so
    that c eta T, and the error, hardly depend on eta.
    """
    eta = defaults.eta if eta is None else eta
    limit = most_rounds(eta, spread, rounds)
    costs = rejection_costs(terms, total, eta, limit)
    if samples is None:
        wanted = _balanced(costs, float(amount), eta * defaults.samples_a_slope)
        cost = float(costs[:wanted].sum())
        samples = LARGEST_SAMPLES if cost == 0 else max(1, min(int(float(amount) / cost), LARGEST_SAMPLES))
    expected = int(np.searchsorted(samples * np.cumsum(costs), float(amount), side="right"))
    return Schedule(eta, samples, max(1, expected))


def most_rounds(eta: float, spread: float, rounds: int | None) -> int:
    """``rounds``, if the sampler has its proof so far: scores within 2^12 powers of two, and eta a round."""
    limit = 1 + max(0, int((LARGEST_SCORE * math.log(2.0) - spread) / eta))
    return limit if rounds is None else min(limit, rounds)


def affordable_rounds(terms: PrivacyTerms, amount: Fraction, total: int, eta: float, samples: int, limit: int) -> int:
    """The most rounds, up to ``limit``, whose draws cost at most ``amount``; the first costs nothing."""
    rounds, left = 0, amount
    while rounds < limit:
        left -= terms.draws_amount(slope_of_round(eta, rounds + 1), total, samples)
        if left < 0:
            break
        rounds += 1
    return rounds


def _longer_rounds(terms: PrivacyTerms, amount: Fraction, total: int, eta: float, samples: int, rounds: int) -> int:
    """How many of the last rounds can draw one query more within ``amount``."""
    if samples == LARGEST_SAMPLES:
        return 0
    slopes = [slope_of_round(eta, t) for t in range(1, rounds + 1)]
    left = amount - sum((terms.draws_amount(slope, total, samples) for slope in slopes), Fraction(0))
    longer = 0
    for slope in reversed(slopes):
        left -= terms.draws_amount(slope, total, samples + 1) - terms.draws_amount(slope, total, samples)
        if left < 0:
            break
        longer += 1
    return longer


def slope_of_round(eta: float, t: int) -> Fraction:
    """Slope of the log-weights in c / total at round t = 1, 2, ...: eta (t - 1)."""
    return Fraction(eta) * (t - 1)


def acceptance_gap(terms: PrivacyTerms, t: int) -> float:
    """gamma of the acceptance bits after t rounds, where the expected cost of a round is least.

    With w = eta / total a bit has range about w / gamma, and gamma loses that fraction of the draws, of range k w t
    each (k = 2 where a unit is replaced, else 1). Squares (zCDP, and nearly Gaussian DP): w^2 / gamma^2 + gamma k^2 w^2
    t^2 is least at gamma^3 = 2 / (k t)^2. Pure DP: w / gamma + gamma k w t, least at gamma^2 = 1 / (k t). The paper's
    t^(-2/3) / 2 has the first form; half or twice this gamma moves no error measurably.
    """
    k = 2 if terms.unit.replaced else 1
    if terms.budget.currency is Currency.PURE:
        return float((k * t) ** -0.5)
    return float((2 / (k * t) ** 2) ** (1 / 3))


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


def guaranteed_schedule(
    terms: PrivacyTerms, amount: Fraction, total: int, alpha: float, beta: float, queries: int, log_universe: float
) -> Schedule:
    """``theoretical_parameters``, where ``amount`` pays for all their rounds.

    Raises ConfigError where it does not, with what it takes: nothing less has Theorem 4.6's guarantee.
    """
    schedule = theoretical_parameters(alpha, beta, queries, log_universe)
    named = f"mechanism.alpha {alpha:g} and beta {beta:g}: {schedule.rounds:,} rounds of {schedule.samples:,} samples"
    if schedule.rounds > most_rounds(schedule.eta, 0.0, None):
        raise ConfigError(f"{named} lead to weights beyond the sampler's proof; want a larger alpha")
    cost = schedule.samples * float(draw_costs(terms, total, schedule.eta, schedule.rounds).sum())
    # The sum of floats decides clear cases alone; the exact one takes a second for 100,000 rounds.
    affordable = cost < 2 * amount and schedule.rounds == affordable_rounds(
        terms, amount, total, schedule.eta, schedule.samples, schedule.rounds
    )
    if not affordable:
        power = 1.0 if terms.budget.currency is Currency.PURE else 0.5
        units = math.ceil(1.001 * total * (cost / float(amount)) ** power)
        currency = terms.budget.currency.value
        raise ConfigError(
            f"{named} cost {currency} = {cost:.3g}, and {float(amount):.3g} is there for them; want a larger alpha or "
            f"budget, or about {units:,} units"
        )
    return schedule


def draw_costs(terms: PrivacyTerms, total: int, eta: float, rounds: int) -> NDArray[np.float64]:
    """About what one draw costs in each round, float64 [rounds]: for choices, never for charges."""
    power = 1 if terms.budget.currency is Currency.PURE else 2
    # From a later round: in the first ones the sampler's own error is a few per cent of the range.
    step = float(terms.draws_amount(slope_of_round(eta, _TYPICAL_ROUND + 1), total, 1)) / _TYPICAL_ROUND**power
    return np.asarray(step * np.arange(rounds, dtype=np.float64) ** power)


def rejection_costs(terms: PrivacyTerms, total: int, eta: float, rounds: int) -> NDArray[np.float64]:
    """About what one sample of each round of DQRS costs, float64 [rounds]: its bit, and a fresh draw if rejected."""
    gaps = np.array([acceptance_gap(terms, t) for t in range(1, rounds)])
    bit = float(bounded_range_cost(terms.budget.currency, Fraction(eta) / total))
    if terms.budget.currency is Currency.PURE:
        bits = bit * np.maximum(1.0, 1.0 / np.expm1(gaps))
    else:
        bits = bit / (1.0 - np.exp(-gaps)) ** 2
    fresh = -np.expm1(-gaps - LOST_A_STEP * eta)
    return np.append(0.0, bits + fresh * draw_costs(terms, total, eta, rounds)[1:])


def _balanced(costs: NDArray[np.float64], amount: float, samples_a_round: float) -> int:
    """The largest T, at least 2 if there are two, for which samples_a_round T samples of T rounds are paid."""
    rounds = np.arange(1, len(costs) + 1)
    wanted = int(np.searchsorted(samples_a_round * rounds * np.cumsum(costs), amount, side="right"))
    return min(max(2, wanted), len(costs))
