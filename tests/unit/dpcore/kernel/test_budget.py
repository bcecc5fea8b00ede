from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import BudgetExceededError
from dpcore.kernel.budget import Budget, Charge, Currency, Filter, rounded_down, rounded_up

amounts = st.fractions(min_value=0, max_value=100)


def test_a_budget_is_positive() -> None:
    for amount in (Fraction(0), Fraction(-1, 3)):
        with pytest.raises(ValueError, match="want > 0"):
            Budget(Currency.PURE, amount)
    assert Budget.pure(0.5) == Budget(Currency.PURE, Fraction(1, 2))
    assert Budget.zcdp(Fraction(1, 3)) == Budget(Currency.ZCDP, Fraction(1, 3))
    assert Budget.gdp(Fraction(1, 4)) == Budget(Currency.GDP, Fraction(1, 4))


def test_thirds_fill_a_budget_exactly() -> None:
    spent = Filter(Budget.zcdp(1))
    for _ in range(3):
        spent.charge("a third", Fraction(1, 3))
    assert spent.remaining == 0
    with pytest.raises(BudgetExceededError):
        spent.charge("one too many", Fraction(1, 2**200))


def test_a_refused_charge_changes_nothing_and_carries_its_numbers() -> None:
    spent = Filter(Budget.pure(1))
    spent.charge("first", Fraction(3, 4))
    with pytest.raises(
        BudgetExceededError, match=r"second: charge of epsilon=0\.5 refused: only epsilon=0\.25"
    ) as refusal:
        spent.charge("second", Fraction(1, 2))
    assert (refusal.value.requested, refusal.value.remaining) == (Fraction(1, 2), Fraction(1, 4))
    assert refusal.value.currency == "epsilon"
    with pytest.raises(ValueError, match="want >= 0"):
        spent.charge("a refund", Fraction(-1, 2))
    assert spent.spent == Fraction(3, 4)
    assert spent.charges == [Charge("first", Fraction(3, 4))]


@given(st.lists(amounts, max_size=20), st.fractions(min_value=Fraction(1, 100), max_value=50))
def test_the_sum_of_accepted_charges_never_passes_the_budget(charges: list[Fraction], budget: Fraction) -> None:
    spent, accepted = Filter(Budget.zcdp(budget)), Fraction(0)
    for amount in charges:
        fits = accepted + amount <= budget
        if fits:
            spent.charge("one", amount)
            accepted += amount
        else:
            with pytest.raises(BudgetExceededError):
                spent.charge("one", amount)
        assert spent.spent == accepted == sum((charge.amount for charge in spent.charges), Fraction(0))
        assert spent.remaining == budget - accepted >= 0


@given(amounts)
def test_rounding_goes_to_the_stated_side_by_less_than_a_step(amount: Fraction) -> None:
    step = Fraction(1, 2**80)
    assert amount - step < rounded_down(amount) <= amount <= rounded_up(amount) < amount + step
    for rounded in (rounded_down(amount), rounded_up(amount)):
        assert (rounded * 2**80).denominator == 1
