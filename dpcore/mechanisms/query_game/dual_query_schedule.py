"""Step size, samples and rounds of DualQuery and DQRS, derived from public facts only."""

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
_REFERENCE_ROUND = 64
# DQRS keeps a drawn query that the new record satisfies with probability about exp(-2 eta), and any other with about
# exp(-eta). A drawn query is more likely to be satisfied than not. On every dataset tried, the logarithm of the kept
# fraction was between -1.0 and -1.2 times eta, gamma aside.
REJECTED_PER_ETA = 1.1


@dataclass(frozen=True)
class DefaultParameters:
    """The step size, and the number of samples, where nothing is set.

    eta: Step size of the multiplicative weights.
    samples_per_slope: Samples of a round divided by eta T, the slope of the last round's log-weights.
    """

    eta: float
    samples_per_slope: float


@dataclass(frozen=True)
class DefaultsByWorkload:
    """Default parameters of a mechanism.

    A record satisfies about as many queries as were drawn. Sparse baskets satisfy few queries, and few samples with
    large steps had smaller errors on them. On dense data and with negated literals, more samples gave smaller errors.

    general: For tables, and for conjunctions with negated literals.
    sparse: For positive conjunctions of items.
    """

    general: DefaultParameters
    sparse: DefaultParameters

    def of(self, queries: CountingQueries) -> DefaultParameters:
        """The parameters for a class of queries."""
        positive = isinstance(queries, Conjunctions) and not queries.view.groups and not queries.negated.any()
        return self.sparse if positive else self.general


DUAL_QUERY = DefaultsByWorkload(general=DefaultParameters(0.7, 0.5), sparse=DefaultParameters(2.0, 0.025))
DQRS = DefaultsByWorkload(general=DefaultParameters(0.2, 0.5), sparse=DefaultParameters(0.5, 0.025))


@dataclass(frozen=True)
class DualQueryParameters:
    """Parameters of Algorithm 2 of DualQuery, and of DQRS.

    eta: Step size of the multiplicative weights.
    samples: s, the number of queries drawn per round.
    rounds: T, the number of rounds and so of records. For DQRS it is the expected number, because the acceptance bits
        decide what a round costs.
    larger_rounds: Number of last rounds that draw one query more, paid with the budget that whole samples leave over.
    """

    eta: float
    samples: int
    rounds: int
    larger_rounds: int = 0

    def size(self, t: int) -> int:
        """The number of queries drawn in round t = 1, 2, ..."""
        return self.samples + (t > self.rounds - self.larger_rounds)


def dual_query_parameters(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    defaults: DefaultParameters,
    *,
    eta: float | None = None,
    samples: int | None = None,
    rounds: int | None = None,
    prior_spread: float = 0.0,
) -> DualQueryParameters:
    """Completes the parameters of DualQuery, with as many rounds as ``amount`` pays for.

    If ``samples`` is None, s is c eta T for c = defaults.samples_per_slope: T is the largest number of rounds for which
    the amount pays for that many samples, and s is then the number of samples that the amount pays for in T rounds. Let
    r be the range of a draw of slope 1: 1 / total, or 2 / total where a unit is replaced. Under pure DP a draw of round
    t costs eta r (t - 1), and all draws c eta^2 r T^3 / 2. Under zCDP a draw costs (eta r (t - 1))^2 / 8, and all draws
    c eta^3 r^2 T^4 / 24. Under Gaussian DP all draws cost about pi times that.

    terms: The privacy terms of the release.
    amount: What the draws may cost, in the currency of the budget.
    total: The public or noisy number of units, at least 1.
    defaults: Used for ``eta`` and ``samples`` where these are None.
    eta: The step size, or None.
    samples: The number of samples per round, or None.
    rounds: The maximum number of rounds, or None.
    prior_spread: The largest minus the smallest log-weight of the first round.
    """
    eta = defaults.eta if eta is None else eta
    limit = max_rounds(eta, prior_spread, rounds)
    if samples is None:
        costs = draw_costs(terms, total, eta, limit)
        balanced = _balanced_rounds(costs, float(amount), eta * defaults.samples_per_slope)
        cost = sum(terms.draws_amount(slope_of_round(eta, t), total, 1) for t in range(1, balanced + 1))
        samples = LARGEST_SAMPLES if cost == 0 else max(1, min(int(amount / cost), LARGEST_SAMPLES))
        affordable = affordable_rounds(terms, amount, total, eta, samples, limit)
        larger = _larger_rounds(terms, amount, total, eta, samples, affordable)
        return DualQueryParameters(eta, samples, affordable, larger)
    return DualQueryParameters(eta, samples, affordable_rounds(terms, amount, total, eta, samples, limit))


def dqrs_parameters(
    terms: PrivacyTerms,
    amount: Fraction,
    total: int,
    defaults: DefaultParameters,
    *,
    eta: float | None = None,
    samples: int | None = None,
    rounds: int | None = None,
    prior_spread: float = 0.0,
) -> DualQueryParameters:
    """Completes the parameters of DQRS, with the number of rounds to be expected.

    It is ``dual_query_parameters`` with the expected cost of a round of DQRS: s acceptance bits, and fresh draws for
    the expected rejected fraction 1 - exp(-gamma - REJECTED_PER_ETA eta). With a small eta there are many rounds, each
    proportionally cheaper, so c eta T and the error hardly depend on eta.
    """
    eta = defaults.eta if eta is None else eta
    limit = max_rounds(eta, prior_spread, rounds)
    costs = rejection_costs(terms, total, eta, limit)
    if samples is None:
        balanced = _balanced_rounds(costs, float(amount), eta * defaults.samples_per_slope)
        cost = float(costs[:balanced].sum())
        samples = LARGEST_SAMPLES if cost == 0 else max(1, min(int(float(amount) / cost), LARGEST_SAMPLES))
    expected = int(np.searchsorted(samples * np.cumsum(costs), float(amount), side="right"))
    return DualQueryParameters(eta, samples, max(1, expected))


def max_rounds(eta: float, prior_spread: float, rounds: int | None) -> int:
    """The maximum number of rounds: ``rounds``, unless the scores would leave the range of the sampler's proof.

    A log-weight changes by at most eta per round, and the proof covers scores of up to 2^12 powers of two.
    """
    limit = 1 + max(0, int((LARGEST_SCORE * math.log(2.0) - prior_spread) / eta))
    return limit if rounds is None else min(limit, rounds)


def affordable_rounds(terms: PrivacyTerms, amount: Fraction, total: int, eta: float, samples: int, limit: int) -> int:
    """The largest number of rounds, at most ``limit``, whose draws cost at most ``amount``; the first costs nothing."""
    rounds, remaining = 0, amount
    while rounds < limit:
        remaining -= terms.draws_amount(slope_of_round(eta, rounds + 1), total, samples)
        if remaining < 0:
            break
        rounds += 1
    return rounds


def _larger_rounds(terms: PrivacyTerms, amount: Fraction, total: int, eta: float, samples: int, rounds: int) -> int:
    """The number of last rounds that can draw one query more within ``amount``."""
    if samples == LARGEST_SAMPLES:
        return 0
    slopes = [slope_of_round(eta, t) for t in range(1, rounds + 1)]
    remaining = amount - sum((terms.draws_amount(slope, total, samples) for slope in slopes), Fraction(0))
    larger = 0
    for slope in reversed(slopes):
        remaining -= terms.draws_amount(slope, total, samples + 1) - terms.draws_amount(slope, total, samples)
        if remaining < 0:
            break
        larger += 1
    return larger


def slope_of_round(eta: float, t: int) -> Fraction:
    """The slope of the log-weights in c / total at round t = 1, 2, ...: eta (t - 1)."""
    return Fraction(eta) * (t - 1)


def acceptance_gap(terms: PrivacyTerms, t: int) -> float:
    """gamma of the acceptance bits after t rounds: the value that minimises the expected cost of a round.

    With w = eta / total a bit has range about w / gamma, and gamma rejects that fraction of the draws, each of range
    k w t (k = 2 where a unit is replaced, else 1). Under zCDP, and nearly so under Gaussian DP, costs are squares:
    w^2 / gamma^2 + gamma k^2 w^2 t^2 is minimal at gamma^3 = 2 / (k t)^2. Under pure DP, w / gamma + gamma k w t is
    minimal at gamma^2 = 1 / (k t). The paper's t^(-2/3) / 2 has the first form. Half or twice this gamma changes no
    error measurably.
    """
    k = 2 if terms.unit.replaced else 1
    if terms.budget.currency is Currency.PURE:
        return float((k * t) ** -0.5)
    return float((2 / (k * t) ** 2) ** (1 / 3))


def theoretical_parameters(alpha: float, beta: float, queries: int, log_universe: float) -> DualQueryParameters:
    """Parameters with which every answer is within ``alpha`` of the truth, with probability at least 1 - beta.

    alpha: The largest error, as a fraction of the units.
    beta: The probability of a larger error.
    queries: The number of queries, without their complements.
    log_universe: The natural logarithm of the number of possible records.

    Source: full DualQuery paper, Algorithm 2 and Theorem 4.6. The bound is a worst case: it needs far more budget than
    the errors seen in practice.
    """
    rounds = math.ceil(16 * math.log(2 * queries) / alpha**2)
    samples = math.ceil(48 * (math.log(2 * rounds / beta) + log_universe) / alpha**2)
    return DualQueryParameters(alpha / 4, samples, rounds)


def guaranteed_parameters(
    terms: PrivacyTerms, amount: Fraction, total: int, alpha: float, beta: float, queries: int, log_universe: float
) -> DualQueryParameters:
    """``theoretical_parameters``, if ``amount`` pays for all their rounds.

    Raises ConfigError if it does not, with the budget or the number of units that would: with fewer rounds Theorem 4.6
    guarantees nothing.
    """
    parameters = theoretical_parameters(alpha, beta, queries, log_universe)
    rounds, samples = parameters.rounds, parameters.samples
    described = f"mechanism.alpha {alpha:g} and beta {beta:g}: {rounds:,} rounds of {samples:,} samples"
    if rounds > max_rounds(parameters.eta, 0.0, None):
        raise ConfigError(f"{described} lead to weights beyond the sampler's proof; want a larger alpha")
    cost = samples * float(draw_costs(terms, total, parameters.eta, rounds).sum())
    # The floating-point cost decides clear cases only; the exact one takes a second for 100,000 rounds.
    affordable = cost < 2 * amount and rounds == affordable_rounds(
        terms, amount, total, parameters.eta, samples, rounds
    )
    if not affordable:
        power = 1.0 if terms.budget.currency is Currency.PURE else 0.5
        units = math.ceil(1.001 * total * (cost / float(amount)) ** power)
        currency = terms.budget.currency.value
        raise ConfigError(
            f"{described} cost {currency} = {cost:.3g}, but the draws have {currency} = {float(amount):.3g}; want a "
            f"larger alpha or budget, or about {units:,} units"
        )
    return parameters


def draw_costs(terms: PrivacyTerms, total: int, eta: float, rounds: int) -> NDArray[np.float64]:
    """The approximate cost of one draw of each round, float64 [rounds]: used to choose parameters, never to charge."""
    power = 1 if terms.budget.currency is Currency.PURE else 2
    # Extrapolated from a later round: in the first rounds the sampler's own error is a few per cent of the range.
    per_slope = float(terms.draws_amount(slope_of_round(eta, _REFERENCE_ROUND + 1), total, 1)) / _REFERENCE_ROUND**power
    return np.asarray(per_slope * np.arange(rounds, dtype=np.float64) ** power)


def rejection_costs(terms: PrivacyTerms, total: int, eta: float, rounds: int) -> NDArray[np.float64]:
    """The approximate cost of one sample of each round of DQRS, float64 [rounds].

    A sample costs its acceptance bit and, if it is rejected, a fresh draw.
    """
    gaps = np.array([acceptance_gap(terms, t) for t in range(1, rounds)])
    bit = float(bounded_range_cost(terms.budget.currency, Fraction(eta) / total))
    if terms.budget.currency is Currency.PURE:
        bits = bit * np.maximum(1.0, 1.0 / np.expm1(gaps))
    else:
        bits = bit / (1.0 - np.exp(-gaps)) ** 2
    rejected = -np.expm1(-gaps - REJECTED_PER_ETA * eta)
    return np.append(0.0, bits + rejected * draw_costs(terms, total, eta, rounds)[1:])


def _balanced_rounds(costs: NDArray[np.float64], amount: float, samples_per_round: float) -> int:
    """The largest T such that ``amount`` pays for samples_per_round T samples in each of T rounds; 2 if possible."""
    rounds = np.arange(1, len(costs) + 1)
    affordable = int(np.searchsorted(samples_per_round * rounds * np.cumsum(costs), amount, side="right"))
    return min(max(2, affordable), len(costs))
