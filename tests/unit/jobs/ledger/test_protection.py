"""A dataset's total is one number about the units of one column under one relation, on record."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger import SqlLedger
from jobs.ledger.amounts import charged_amount, replacement_factor
from jobs.ledger.records import OPEN, Accounting, Protection
from jobs.ledger.windows import Window
from tests.support.ledgers import PERSONS, past_the_ledger, planned, reserve
from tests.unit.jobs.ledger.test_audit import NO_TRIGGERS

REPLACING = replace(PERSONS, neighbours=Neighbours.REPLACE_ONE_UNIT)
TENTH = Budget.pure(Fraction(1, 10))


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    made = SqlLedger(ledger_url)
    made.create_dataset("adult", 1.0, 0.0)
    return made


def test_a_release_for_units_of_another_column_is_not_added_up(ledger: SqlLedger) -> None:
    """50 rows per person: epsilon 0.3 for a row is epsilon 15 for a person."""
    reserve(ledger, "a" * 64, TENTH)
    rows = planned("b" * 64, budget=TENTH, protection=replace(PERSONS, unit="row_id"))
    with pytest.raises(NoBudgetError) as refused:
        ledger.plan(rows)
    message = str(refused.value)
    for word in ("column 'person'", "column 'row_id'", "--shares-with adult", "--unit row_id", "Nothing then bounds"):
        assert word in message
    assert ledger.release("b" * 64) is None
    assert ledger.dataset("adult", 1, 0).spent == TENTH.amount


def test_two_planned_releases_for_different_units_are_not_both_charged(ledger: SqlLedger) -> None:
    ledger.plan(planned("a" * 64, budget=TENTH))
    ledger.plan(planned("b" * 64, budget=TENTH, protection=replace(PERSONS, unit="row_id")))
    assert ledger.dataset("adult", 1, 0).protection == OPEN, "a plan binds neither unit nor relation"
    ledger.reserve("a" * 64, TENTH)
    with pytest.raises(NoBudgetError, match="row_id"):
        ledger.reserve("b" * 64, TENTH)
    assert len(ledger.history("adult")) == 1


def test_the_first_reservation_binds_unit_bound_and_relation_on_record(ledger: SqlLedger) -> None:
    reserve(ledger, "a" * 64, TENTH)
    reserve(ledger, "b" * 64, TENTH)
    created, bound = ledger.grants("adult")
    assert (created.protection, bound.protection, bound.reason) == (OPEN, PERSONS, "bound by the first release")
    assert (bound.amount, bound.epsilon) == (created.amount, created.epsilon)
    assert ledger.verified("adult").protection == PERSONS
    assert {charge.protection for charge in ledger.history("adult")} == {PERSONS}


@pytest.mark.parametrize("bound", [
    replace(PERSONS, max_per_unit=50), replace(PERSONS, contribution="items", max_per_unit=7),
    replace(PERSONS, contribution=None, max_per_unit=None),
])  # fmt: skip
def test_another_bound_of_the_same_units_adds_up(ledger: SqlLedger, bound: Protection) -> None:
    """Each release protects a unit with all its rows, whatever number of them it keeps."""
    reserve(ledger, "a" * 64, TENTH)
    reserve(ledger, "b" * 64, TENTH, protection=bound)
    dataset = ledger.verified("adult")
    assert (dataset.spent, dataset.protection) == (2 * TENTH.amount, PERSONS)
    assert [charge.protection for charge in ledger.history("adult")] == [PERSONS, bound]


@pytest.mark.parametrize(("budget", "factor"), [
    (TENTH, 2), (Budget.zcdp(Fraction(1, 700)), 4), (Budget.gdp(Fraction(1, 700)), 4),
])  # fmt: skip
def test_an_add_remove_release_costs_a_replace_one_total_what_group_privacy_says(
    ledger: SqlLedger, budget: Budget, factor: int
) -> None:
    if budget.currency is not Currency.PURE:
        accounting = {Currency.ZCDP: Accounting.ZCDP, Currency.GDP: Accounting.GDP}[budget.currency]
        ledger.create_dataset("other", 3.0, 1e-6, accounting=accounting)
    name = "adult" if budget.currency is Currency.PURE else "other"
    reserve(ledger, "a" * 64, budget, dataset=name, protection=REPLACING)
    reserve(ledger, "b" * 64, budget, dataset=name)
    assert [charge.amount for charge in ledger.history(name)] == [budget.amount, factor * budget.amount]
    assert ledger.verified(name).protection == REPLACING


def test_a_consumer_pays_for_the_relation_of_the_total_too(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "team", 0.25, 0.0, Window.MONTH)
    reserve(ledger, "a" * 64, TENTH, protection=REPLACING)
    reserve(ledger, "b" * 64, TENTH, consumer="team")
    assert ledger.consumers("adult")[0].spent == Fraction(1, 5)
    with pytest.raises(BudgetExceededError, match=r"consumer 'team' .*privacy.epsilon at most 0.025,"):
        ledger.plan(planned("c" * 64, budget=TENTH, consumer="team", promise=(0.1, 0.0)))


def test_group_privacy_comes_before_the_conversion_between_currencies() -> None:
    """Reference: replace twice in the release's own currency, then convert by the theorems of ``charged_amount``."""
    assert [replacement_factor(currency) for currency in (Currency.PURE, Currency.ZCDP, Currency.GDP)] == [2, 4, 4]
    for budget, currency in (
        (TENTH, Currency.PURE), (TENTH, Currency.ZCDP), (TENTH, Currency.GDP), (Budget.gdp(TENTH.amount), Currency.ZCDP)
    ):  # fmt: skip
        factor = replacement_factor(budget.currency)
        twice = Budget(budget.currency, factor * budget.amount)
        assert charged_amount(budget, currency, "adult", replacing=True) == charged_amount(twice, currency, "adult")


def test_a_noisy_sum_of_signs_loses_as_much_as_the_factors_allow() -> None:
    """Reference: a unit adds 1 or -1, so the sum moves by 1 for a unit that comes or goes, and by 2 for an exchange."""
    sums = {"1": 1, "": 0, "-1": -1}
    one, exchange = abs(sums["1"] - sums[""]), abs(sums["1"] - sums["-1"])
    assert replacement_factor(Currency.PURE) == exchange / one  # Laplace: epsilon = moved / b.
    for currency in (Currency.ZCDP, Currency.GDP):  # Gaussian: rho = moved^2 / (2 sigma^2), mu^2 = moved^2 / sigma^2.
        assert replacement_factor(currency) == (exchange / one) ** 2


def test_a_replace_one_release_is_not_charged_to_an_add_remove_total(ledger: SqlLedger) -> None:
    reserve(ledger, "a" * 64, TENTH)
    with pytest.raises(NoBudgetError, match="want privacy.neighbours: add_remove_unit") as refused:
        ledger.plan(planned("b" * 64, budget=TENTH, protection=REPLACING))
    assert "replace_one_unit, which says nothing about a unit that is added or removed" in str(refused.value)
    assert len(ledger.history("adult")) == 1


def test_a_refusal_in_a_replace_one_total_says_what_fits_the_release(ledger: SqlLedger) -> None:
    ledger.create_dataset("zcdp", 1.0, 1e-6, accounting=Accounting.ZCDP, protection=REPLACING)
    whole = budget_of(1.0, 1e-6, Currency.ZCDP)
    with pytest.raises(BudgetExceededError, match=r"privacy.epsilon at most 0.4\d*"):
        ledger.plan(planned("b" * 64, dataset="zcdp", budget=whole, promise=(1.0, 1e-6)))
    reserve(ledger, "b" * 64, Budget.zcdp(whole.amount / 4), dataset="zcdp")
    assert ledger.verified("zcdp").remaining == 0


def test_a_total_may_be_bound_when_it_is_created_or_later_but_once(ledger: SqlLedger) -> None:
    for _ in range(2):
        ledger.create_dataset("bound", 1.0, 0.0, protection=PERSONS)
    assert [grant.protection for grant in ledger.grants("bound")] == [PERSONS]
    ledger.create_dataset("bound", 1.0, 0.0)
    for other in (replace(PERSONS, unit="row_id"), replace(PERSONS, max_per_unit=2), REPLACING):
        with pytest.raises(ConfigError, match=r"already has a budget, with .* instead of"):
            ledger.create_dataset("bound", 1.0, 0.0, protection=other)
    later = ledger.create_dataset("adult", 1.0, 0.0, protection=Protection(unit="person"))
    assert (later.protection, ledger.grants("adult")[-1].reason) == (Protection(unit="person"), "bound")
    reserve(ledger, "a" * 64, TENTH)
    assert ledger.verified("adult").protection == Protection("person", neighbours=Neighbours.ADD_REMOVE_UNIT)
    with pytest.raises(NoBudgetError, match="row_id"):
        ledger.plan(planned("b" * 64, dataset="bound", budget=TENTH, protection=replace(PERSONS, unit="row_id")))


@pytest.mark.parametrize("change", ["unit = 'row_id'", "neighbours = 'replace_one_unit'", "max_per_unit = 9"])
def test_a_unit_that_was_changed_by_hand_is_an_integrity_error(ledger: SqlLedger, ledger_url: str, change: str) -> None:
    reserve(ledger, "a" * 64, TENTH)
    past_the_ledger(ledger_url, f"UPDATE datasets SET {change}")
    with pytest.raises(IntegrityError, match="whom they protect, do not match its grants"):
        ledger.datasets()
    drops = [f"DROP TRIGGER {name}" for name in NO_TRIGGERS[ledger_url.partition(":")[0]]]
    past_the_ledger(ledger_url, *drops, "UPDATE grants SET unit = 'x'")
    with pytest.raises(IntegrityError, match="do not match its grants"):
        ledger.history("adult")
