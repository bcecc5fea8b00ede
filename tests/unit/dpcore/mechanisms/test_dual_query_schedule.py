"""Step size, samples and rounds against the paper's closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.kernel.terms import Terms
from dpcore.mechanisms.dual_query_schedule import (
    GENERAL,
    LARGEST_SAMPLES,
    SPARSE,
    Defaults,
    affordable_rounds,
    defaults_for,
    schedule_for,
    theoretical_parameters,
)
from dpcore.queries import Conjunctions

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE_UNIT, Neighbours.REPLACE_ONE_UNIT
UNITS = 100_000


def terms(budget: Budget, neighbours: Neighbours = ADD_REMOVE) -> Terms:
    return Terms(PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 8), UNITS), budget)


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
@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(0.02)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("total", [1_000, 30_000, 500_000])
def test_unset_samples_are_a_fraction_of_the_rounds(total: int, budget: Budget, defaults: Defaults) -> None:
    schedule = schedule_for(terms(budget), budget.amount, total, defaults)
    assert schedule.eta == defaults.eta
    if schedule.samples > 4:  # Below, rounding to an integer says more than the ratio.
        assert schedule.samples / schedule.rounds == pytest.approx(defaults.samples_a_round, rel=0.25)
    cost = [
        sum(terms(budget).draws_amount(Fraction(schedule.eta) * t, total, schedule.samples) for t in range(rounds))
        for rounds in (schedule.rounds, schedule.rounds + 1)
    ]
    assert cost[0] <= budget.amount < cost[1]


def test_given_rounds_are_bought_with_as_many_samples_as_the_budget_pays() -> None:
    budget = Budget.zcdp(0.02)
    schedule = schedule_for(terms(budget), budget.amount, UNITS, GENERAL, rounds=50)
    assert schedule.rounds == 50
    assert schedule.samples == pytest.approx(0.02 * 48 * UNITS**2 / (49 * 50 * 99), rel=1e-3)
    assert affordable_rounds(terms(budget), budget.amount, UNITS, GENERAL.eta, schedule.samples, 10**6) == 50
    assert affordable_rounds(terms(budget), budget.amount, UNITS, GENERAL.eta, schedule.samples + 1, 10**6) == 49


def test_everything_given_is_kept_and_rounds_are_a_limit() -> None:
    budget = Budget.zcdp(0.02)
    schedule = schedule_for(terms(budget), budget.amount, UNITS, GENERAL, eta=0.5, samples=100, rounds=30)
    assert (schedule.eta, schedule.samples, schedule.rounds) == (0.5, 100, 30)
    poor = schedule_for(terms(budget), budget.amount, UNITS, GENERAL, eta=0.5, samples=10**6, rounds=10**6)
    assert poor.rounds < 30


def test_no_budget_pays_for_the_free_round_alone() -> None:
    budget = Budget.zcdp(Fraction(1, 10**30))
    assert schedule_for(terms(budget), budget.amount, UNITS, GENERAL).rounds == 1


def test_scores_stay_where_the_sampler_has_its_proof() -> None:
    """A log-weight moves by at most eta a round, so eta (T - 1) + spread <= 2^12 ln 2."""
    budget = Budget.zcdp(10_000)
    schedule = schedule_for(terms(budget), budget.amount, UNITS, GENERAL, eta=3.0, spread=100.0)
    assert schedule.samples == LARGEST_SAMPLES
    limit = 4096 * math.log(2)
    assert 3.0 * (schedule.rounds - 1) + 100 <= limit < 3.0 * schedule.rounds + 100


def test_theoretical_parameters_are_those_of_algorithm_2() -> None:
    """T = 16 log|Q| / alpha^2, eta = alpha / 4, s = 48 log(2 |X| T / beta) / alpha^2 with |Q| = 2000, |X| = 2^20."""
    found = theoretical_parameters(0.1, 0.05, 1000, 20 * math.log(2))
    assert found.rounds == math.ceil(1600 * math.log(2000)) == 12162
    assert found.eta == 0.025
    assert found.samples == math.ceil(4800 * math.log(2 * 2**20 * 12162 / 0.05))


def test_only_positive_conjunctions_of_items_are_sparse() -> None:
    table = BinaryView.one_hot(Domain.of({"a": 2, "b": 2}))
    for view, negated, wanted in [
        (BinaryView(4), False, SPARSE),
        (BinaryView(4), True, GENERAL),
        (table, False, GENERAL),
        (table, True, GENERAL),
    ]:
        queries = Conjunctions(view, np.array([[0, 2], [1, 3]]), np.array([[False, False], [False, negated]]))
        assert defaults_for(queries) is wanted
