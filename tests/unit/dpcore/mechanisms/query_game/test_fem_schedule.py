"""Rounds and slopes of FEM: the budget in full, under every relation and currency."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.query_game.fem_schedule import FemParameters, fem_parameters

UNITS = 48_842
BUDGETS = {currency: budget_of(1.0, 1e-9 * (currency is not Currency.PURE), currency) for currency in Currency}


def terms_of(budget: Budget, neighbours: Neighbours) -> PrivacyTerms:
    return PrivacyTerms(PrivacyUnit(neighbours, Contribution(Shape.TABLE, 1), UNITS), budget)


def cost(terms: PrivacyTerms, parameters: FemParameters) -> Fraction:
    return (parameters.rounds - 1) * terms.draws_amount(parameters.slope, UNITS, 1)


@pytest.mark.parametrize(("currency", "neighbours", "rounds"), list(product(Currency, Neighbours, (None, 2, 40))))
def test_the_selections_use_the_amount_up(currency: Currency, neighbours: Neighbours, rounds: int | None) -> None:
    terms = terms_of(BUDGETS[currency], neighbours)
    amount = terms.budget.amount * Fraction(4, 5)
    schedule = fem_parameters(terms, amount, UNITS, 400_000, 0.2, rounds=rounds)
    spent = cost(terms, schedule)
    assert spent <= amount
    if rounds != 2:  # There the sampler's largest slope is less than one selection could have.
        assert amount - spent < amount / 2**40
    assert schedule.rounds == (rounds or schedule.rounds)
    assert schedule.scale == 0.2 * math.sqrt(schedule.rounds)


def test_add_remove_has_slopes_twice_as_steep() -> None:
    found = {
        neighbours: fem_parameters(
            terms_of(BUDGETS[Currency.ZCDP], neighbours), Fraction(1, 1000), UNITS, 10, 0.2, rounds=50
        )
        for neighbours in Neighbours
    }
    ratio = found[Neighbours.ADD_REMOVE_UNIT].slope / found[Neighbours.REPLACE_ONE_UNIT].slope
    assert float(ratio) == pytest.approx(2.0, rel=1e-3)


def test_more_budget_means_more_rounds_and_fewer_records_in_each() -> None:
    schedules = [
        fem_parameters(
            terms_of(budget_of(epsilon, 1e-9, Currency.ZCDP), Neighbours.REPLACE_ONE_UNIT),
            budget_of(epsilon, 1e-9, Currency.ZCDP).amount, UNITS, 400_000, 0.2,
        )
        for epsilon in (0.1, 0.5, 1.0)
    ]  # fmt: skip
    rounds, records = [s.rounds for s in schedules], [s.records for s in schedules]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]
    assert records == sorted(records, reverse=True)
    assert all(50 <= count <= 200 for count in records)
    assert schedules[0].records * schedules[0].rounds <= 100_000


def test_the_best_number_of_rounds_has_the_least_sum_of_regrets() -> None:
    terms = terms_of(BUDGETS[Currency.ZCDP], Neighbours.REPLACE_ONE_UNIT)

    def regrets(rounds: int) -> float:
        slope = fem_parameters(terms, terms.budget.amount, UNITS, 1000, 0.2, rounds=rounds).slope
        return 1.4 / math.sqrt(rounds) + math.log(2000) / float(slope)

    best = fem_parameters(terms, terms.budget.amount, UNITS, 1000, 0.2).rounds
    assert all(regrets(best) <= regrets(rounds) for rounds in (best // 2, best - 5, best + 5, 2 * best))


def test_few_units_still_give_a_schedule_and_many_do_not_pass_the_sampler() -> None:
    terms = terms_of(BUDGETS[Currency.ZCDP], Neighbours.ADD_REMOVE_UNIT)
    assert fem_parameters(terms, terms.budget.amount, 1, 10, 0.2).rounds >= 2
    steep = fem_parameters(terms, terms.budget.amount, 10**9, 10, 0.2, rounds=2, prior_spread=100.0)
    assert float(steep.slope) < 4096 * math.log(2) - 100
