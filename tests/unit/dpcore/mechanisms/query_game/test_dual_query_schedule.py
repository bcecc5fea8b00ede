"""Step size, samples and rounds against the paper's closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.query_game.dual_query_schedule import (
    DQRS,
    DUAL_QUERY,
    LARGEST_SAMPLES,
    DefaultParameters,
    DefaultsByWorkload,
    acceptance_gap,
    affordable_rounds,
    dqrs_parameters,
    dual_query_parameters,
    guaranteed_parameters,
    max_rounds,
    rejection_costs,
    slope_of_round,
    theoretical_parameters,
)
from dpcore.queries import Conjunctions, Marginals

GENERAL, SPARSE = DUAL_QUERY.general, DUAL_QUERY.sparse
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE_UNIT, Neighbours.REPLACE_ONE_UNIT
UNITS = 100_000
BUDGETS = (Budget.pure(1), Budget.zcdp(0.02), Budget.gdp(0.04))


def terms(budget: Budget, neighbours: Neighbours = ADD_REMOVE) -> PrivacyTerms:
    return PrivacyTerms(PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 8), UNITS), budget)


def largest(cost: Callable[[int], float], amount: float) -> int:
    rounds = 1
    while cost(rounds + 1) <= amount:
        rounds += 1
    return rounds


@pytest.mark.parametrize(("neighbours", "directions"), [(ADD_REMOVE, 1), (REPLACE, 2)])
def test_pure_rounds_are_those_of_theorem_4_2(neighbours: Neighbours, directions: int) -> None:
    """epsilon = eta T (T - 1) s / n where a unit is replaced, half of that where one is added or removed."""
    wanted = largest(lambda t: directions * 1.2 * t * (t - 1) * 50 / (2 * UNITS), 1.0)
    assert affordable_rounds(terms(Budget.pure(1), neighbours), Fraction(1), UNITS, 1.2, 50, 10**6) == wanted


@pytest.mark.parametrize(("neighbours", "divisor"), [(ADD_REMOVE, 48), (REPLACE, 12)])
def test_zcdp_rounds_are_those_of_bounded_range(neighbours: Neighbours, divisor: int) -> None:
    """rho = s eta^2 (T - 1) T (2 T - 1) / (48 n^2), respectively / (12 n^2)."""
    wanted = largest(lambda t: 1750 * 1.2**2 * (t - 1) * t * (2 * t - 1) / (divisor * UNITS**2), 0.02)
    budget = Budget.zcdp(Fraction(2, 100))
    assert affordable_rounds(terms(budget, neighbours), budget.amount, UNITS, 1.2, 1750, 10**6) == wanted


@pytest.mark.parametrize("defaults", [GENERAL, SPARSE])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "gdp"])
@pytest.mark.parametrize("total", [1_000, 30_000, 500_000])
def test_unset_samples_are_a_multiple_of_the_last_slope_and_use_the_budget(
    total: int, budget: Budget, defaults: DefaultParameters
) -> None:
    schedule = dual_query_parameters(terms(budget), budget.amount, total, defaults)
    assert schedule.eta == defaults.eta
    if schedule.samples > 4:  # Below, rounding to an integer says more than the ratio.
        slope = schedule.eta * schedule.rounds
        assert schedule.samples / slope == pytest.approx(defaults.samples_per_slope, rel=0.25)
    costs = [
        terms(budget).draws_amount(slope_of_round(schedule.eta, t), total, schedule.size(t))
        for t in range(1, schedule.rounds + 1)
    ]
    one_more = costs[-1] / schedule.size(schedule.rounds)
    assert sum(costs) <= budget.amount < sum(costs) + one_more * (1 if schedule.larger_rounds < schedule.rounds else 2)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "gdp"])
@pytest.mark.parametrize("total", [1_000, 30_000, 500_000])
def test_what_rounds_of_dqrs_are_expected_to_cost_is_what_their_calls_cost(
    total: int, budget: Budget, neighbours: Neighbours
) -> None:
    """s bits with gap gamma, and fresh draws for 1 - exp(-gamma - 1.1 eta) of them, in each round after the first."""
    these = terms(budget, neighbours)
    schedule = dqrs_parameters(these, budget.amount, total, DQRS.general)
    wanted = [0.0]
    for t in range(1, schedule.rounds):
        gap = acceptance_gap(these, t)
        bit = these.retain_amount(Fraction(schedule.eta), total, {Fraction(gap): 1})
        rejected = 1 - math.exp(-gap - 1.1 * schedule.eta)
        wanted.append(float(bit) + rejected * float(these.draws_amount(Fraction(schedule.eta) * t, total, 1)))
    assert rejection_costs(these, total, schedule.eta, schedule.rounds) == pytest.approx(wanted, rel=0.02)
    assert schedule.samples * sum(wanted) == pytest.approx(float(budget.amount), rel=0.05)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "gdp"])
@pytest.mark.parametrize("t", [3, 50, 2000])
def test_no_other_gap_makes_a_round_much_cheaper(t: int, budget: Budget, neighbours: Neighbours) -> None:
    these = terms(budget, neighbours)

    def cost(gap: float) -> float:
        bit = these.retain_amount(Fraction(1, 5), UNITS, {Fraction(gap): 1})
        return float(bit) + (1 - math.exp(-gap - 0.22)) * float(these.draws_amount(Fraction(t, 5), UNITS, 1))

    chosen = acceptance_gap(these, t)
    assert cost(chosen) < 1.15 * min(cost(chosen * 1.25**step) for step in range(-12, 13))


def test_given_rounds_are_bought_with_as_many_samples_as_the_budget_pays() -> None:
    budget = Budget.zcdp(0.02)
    schedule = dual_query_parameters(terms(budget), budget.amount, UNITS, GENERAL, rounds=80)
    assert schedule.rounds == 80
    assert schedule.samples == pytest.approx(0.02 * 48 * UNITS**2 / (79 * 80 * 159 * GENERAL.eta**2), rel=1e-3)
    assert affordable_rounds(terms(budget), budget.amount, UNITS, GENERAL.eta, schedule.samples, 10**6) == 80
    assert affordable_rounds(terms(budget), budget.amount, UNITS, GENERAL.eta, schedule.samples + 1, 10**6) == 79


def test_everything_given_is_kept_and_rounds_are_a_limit() -> None:
    budget = Budget.zcdp(0.02)
    schedule = dual_query_parameters(terms(budget), budget.amount, UNITS, GENERAL, eta=0.5, samples=100, rounds=30)
    assert (schedule.eta, schedule.samples, schedule.rounds) == (0.5, 100, 30)
    poor = dual_query_parameters(terms(budget), budget.amount, UNITS, GENERAL, eta=0.5, samples=10**6, rounds=10**6)
    assert poor.rounds < 30


def test_no_budget_pays_for_the_free_round_alone() -> None:
    budget = Budget.zcdp(Fraction(1, 10**30))
    assert dual_query_parameters(terms(budget), budget.amount, UNITS, GENERAL).rounds == 1


def test_scores_stay_where_the_sampler_has_its_proof() -> None:
    """A log-weight moves by at most eta a round, so eta (T - 1) + spread <= 2^12 ln 2."""
    budget = Budget.zcdp(10_000)
    schedule = dual_query_parameters(terms(budget), budget.amount, UNITS, GENERAL, eta=3.0, prior_spread=100.0)
    assert schedule.samples == LARGEST_SAMPLES
    limit = 4096 * math.log(2)
    assert 3.0 * (schedule.rounds - 1) + 100 <= limit < 3.0 * schedule.rounds + 100


def test_theoretical_parameters_are_those_of_algorithm_2() -> None:
    """T = 16 log|Q| / alpha^2, eta = alpha / 4, s = 48 log(2 |X| T / beta) / alpha^2 with |Q| = 2000, |X| = 2^20."""
    found = theoretical_parameters(0.1, 0.05, 1000, 20 * math.log(2))
    assert found.rounds == math.ceil(1600 * math.log(2000)) == 12162
    assert found.eta == 0.025
    assert found.samples == math.ceil(4800 * math.log(2 * 2**20 * 12162 / 0.05))


def test_a_guarantee_is_given_where_the_budget_pays_for_all_rounds_and_refused_below() -> None:
    """Under zCDP the rounds cost s eta^2 (T - 1) T (2 T - 1) / (48 n^2)."""
    wanted = theoretical_parameters(0.5, 0.1, 50, 10 * math.log(2))
    rounds = wanted.rounds
    cost = wanted.samples * wanted.eta**2 * (rounds - 1) * rounds * (2 * rounds - 1) / (48 * UNITS**2)
    enough, less = Budget.zcdp(1.001 * cost), Budget.zcdp(0.999 * cost)
    found = guaranteed_parameters(terms(enough), enough.amount, UNITS, 0.5, 0.1, 50, 10 * math.log(2))
    assert found == wanted
    with pytest.raises(ConfigError, match=f"{wanted.rounds:,} rounds of {wanted.samples:,} samples cost rho"):
        guaranteed_parameters(terms(less), less.amount, UNITS, 0.5, 0.1, 50, 10 * math.log(2))


def test_a_guarantee_beyond_the_samplers_proof_is_refused() -> None:
    budget = Budget.zcdp(10**12)
    with pytest.raises(ConfigError, match="beyond the sampler's proof; want a larger alpha"):
        guaranteed_parameters(terms(budget), budget.amount, UNITS, 0.01, 0.1, 10**6, 10.0)
    assert max_rounds(0.5, 0.0, None) == 1 + int(4096 * math.log(2) / 0.5)


@pytest.mark.parametrize("family", [DUAL_QUERY, DQRS])
def test_only_positive_conjunctions_of_items_are_sparse(family: DefaultsByWorkload) -> None:
    table = BinaryView.one_hot(Domain.of({"a": 2, "b": 2}))
    for view, negated, wanted in [
        (BinaryView(4), False, family.sparse),
        (BinaryView(4), True, family.general),
        (table, False, family.general),
        (table, True, family.general),
    ]:
        queries = Conjunctions(view, np.array([[0, 2], [1, 3]]), np.array([[False, False], [False, negated]]))
        assert family.of(queries) is wanted
    assert family.of(Marginals(Domain.of({"a": 2}), (("a",),))) is family.general
