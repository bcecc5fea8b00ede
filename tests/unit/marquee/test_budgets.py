"""Budgets as objects."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import marquee
from dpcore.kernel.budget import Budget as Reserved
from dpcore.kernel.budget import Currency
from jobs.budget_lines import dataset_line
from marquee.budgets import Amount


@pytest.fixture
def ledger(tmp_path: Path) -> marquee.Ledger:
    return marquee.Ledger(str(tmp_path / "marquee.db"))


def test_a_new_budget_is_whole(ledger: marquee.Ledger) -> None:
    budget = ledger.create("people", epsilon=4.0, delta=0.0)
    assert budget.total == budget.remaining == Amount("epsilon", Fraction(4), 4.0, 0.0)
    assert budget.spent == Amount("epsilon", Fraction(0), 0.0, 0.0)
    assert (budget.history, len(budget.grants)) == ([], 1)
    assert str(budget) == dataset_line(budget.record)
    assert ledger.datasets() == [budget] == [ledger.dataset("people")]


def test_until_the_accounting_is_fixed_an_amount_is_an_epsilon(ledger: marquee.Ledger) -> None:
    budget = ledger.create("people", epsilon=4.0, delta=1e-6)
    assert budget.remaining == Amount(None, None, 4.0, 1e-6)
    assert str(budget.remaining) == "epsilon 4 at delta 1e-06"
    zcdp = ledger.create("others", 4.0, 1e-6, accounting="zcdp").remaining
    assert (zcdp.currency, zcdp.epsilon) == ("rho", pytest.approx(4.0, abs=1e-3))
    assert zcdp.amount is not None
    assert Reserved(Currency.ZCDP, zcdp.amount).amount > 0


def test_a_second_equal_budget_changes_nothing_and_another_is_refused(ledger: marquee.Ledger) -> None:
    assert ledger.create("people", 4.0, 1e-6) == ledger.create("people", 4.0, 1e-6)
    with pytest.raises(marquee.ConfigError, match="people"):
        ledger.create("people", 5.0, 1e-6)


def test_an_unknown_dataset_and_an_unknown_ledger(ledger: marquee.Ledger) -> None:
    with pytest.raises(marquee.NoBudgetError, match="there is no ledger at sqlite:"):
        ledger.dataset("people")
    ledger.create("people", 4.0, 1e-6)
    with pytest.raises(marquee.NoBudgetError, match="dataset 'persons' has no budget in sqlite:") as refused:
        ledger.dataset("persons")
    assert str(refused.value).endswith(f"create one with: {ledger!r}.create('persons', epsilon=EPSILON, delta=DELTA)")


def test_a_total_is_raised_with_a_reason(ledger: marquee.Ledger) -> None:
    budget = ledger.create("people", 4.0, 0.0)
    with pytest.raises(marquee.ConfigError, match="reason is empty"):
        budget.raise_total(5.0, 0.0, reason=" ")
    budget.raise_total(5.0, 0.0, reason="decision 12")
    assert (budget.total.epsilon, budget.grants[-1].reason) == (5.0, "decision 12")
    budget.grant("research", 1.0, 0.0, window="month", reason="pilot")
    assert budget.grants[-1].consumer == "research"


def test_whom_a_total_protects(ledger: marquee.Ledger) -> None:
    budget = ledger.create("people", 4.0, 0.0, unit="person", rows_per_unit=2, neighbours="add_remove_unit")
    protection = budget.record.protection
    assert (protection.unit, protection.max_per_unit, protection.contribution) == ("person", 2, "rows")
    with pytest.raises(marquee.ConfigError, match="a bound per unit needs the column of the unit; want unit"):
        ledger.create("others", 4.0, 0.0, rows_per_unit=2)
    with pytest.raises(marquee.ConfigError, match="want one of them"):
        ledger.create("others", 4.0, 0.0, unit="person", rows_per_unit=2, items_per_unit=2)


def test_a_url_with_a_password_is_not_shown() -> None:
    assert "secret" not in repr(marquee.Ledger("postgresql://user:secret@host/db"))


def test_a_budget_of_units_of_several_columns_has_one_name_in_every_order(ledger: marquee.Ledger) -> None:
    budget = ledger.create("people", epsilon=1.0, delta=0.0, unit=["person", "household"])
    assert budget.record.protection.unit == '["household", "person"]'
    assert ledger.create("people", epsilon=1.0, delta=0.0, unit=["household", "person"]) == budget
