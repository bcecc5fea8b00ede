"""The delta of discovered items: all releases of a dataset together keep its promise, and not more is kept free."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpcore.errors import BudgetExceededError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.item_threshold import epsilon_with_threshold_delta, without_threshold_delta
from dpcore.kernel.sensitivity import Neighbours
from jobs.budget_facts import charge_facts, dataset_facts, epsilon_alone, epsilon_spent
from jobs.budget_lines import budget_row, charge_line, dataset_line
from jobs.ledger import SqlLedger
from jobs.ledger.records import PlannedRelease, Protection
from jobs.planning.identity import Identity

EPSILON, DELTA = 2.0, 1e-6
THRESHOLD_DELTA = Fraction(1, 4_000_000)
ITEMS = Protection("user", "items", 10, Neighbours.ADD_REMOVE_UNIT)


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    ledger = SqlLedger(f"sqlite:///{tmp_path}/marquee.db")
    ledger.create_dataset("shop", EPSILON, DELTA)
    return ledger


def charge(ledger: SqlLedger, number: int, budget: Budget, threshold_delta: Fraction = Fraction(0)) -> None:
    release = f"{number:064x}"
    planned = PlannedRelease(
        Identity(release, release, {}, "0"),
        "shop",
        budget,
        "/data",
        "f" * 64,
        "/state",
        ITEMS,
        threshold_delta=threshold_delta,
    )
    ledger.plan(planned)
    ledger.reserve(release, budget, None, threshold_delta)


def remaining(ledger: SqlLedger) -> Fraction:
    dataset = ledger.verified("shop")
    assert dataset.remaining is not None
    return dataset.remaining


@pytest.mark.parametrize("currency", [Currency.GDP, Currency.ZCDP])
def test_several_discoveries_and_other_releases_keep_the_promise(ledger: SqlLedger, currency: Currency) -> None:
    part = budget_of(*without_threshold_delta(0.5, DELTA, THRESHOLD_DELTA), currency)
    charge(ledger, 1, part, THRESHOLD_DELTA)
    charge(ledger, 2, part, THRESHOLD_DELTA)
    last = Budget(currency, remaining(ledger))
    charge(ledger, 3, last)
    assert remaining(ledger) == 0
    spent = Budget(currency, 2 * part.amount + last.amount)
    assert epsilon_with_threshold_delta(spent, DELTA, 2 * THRESHOLD_DELTA) <= EPSILON
    assert (
        epsilon_with_threshold_delta(Budget(currency, spent.amount * Fraction(1001, 1000)), DELTA, 2 * THRESHOLD_DELTA)
        > EPSILON
    )


def test_a_discovery_of_the_whole_budget_fits(ledger: SqlLedger) -> None:
    charge(
        ledger, 1, budget_of(*without_threshold_delta(EPSILON, DELTA, THRESHOLD_DELTA), Currency.GDP), THRESHOLD_DELTA
    )
    assert remaining(ledger) == 0
    with pytest.raises(BudgetExceededError):
        charge(ledger, 2, Budget.gdp(Fraction(1, 1000)))


def test_a_discovery_that_leaves_its_threshold_unpaid_is_refused(ledger: SqlLedger) -> None:
    with pytest.raises(BudgetExceededError):
        charge(ledger, 1, budget_of(EPSILON, DELTA, Currency.GDP), THRESHOLD_DELTA)


def test_a_second_discovery_pays_for_both_thresholds(ledger: SqlLedger) -> None:
    charge(ledger, 1, budget_of(*without_threshold_delta(0.5, DELTA, THRESHOLD_DELTA), Currency.GDP), THRESHOLD_DELTA)
    with pytest.raises(BudgetExceededError):
        charge(ledger, 2, Budget.gdp(remaining(ledger)), THRESHOLD_DELTA)


def test_a_chance_above_delta_is_refused(ledger: SqlLedger) -> None:
    part = Budget.gdp(Fraction(1, 100))
    for number in range(3):
        charge(ledger, number, part, THRESHOLD_DELTA)
    with pytest.raises(BudgetExceededError, match="delta"):
        charge(ledger, 4, part, THRESHOLD_DELTA)


def test_a_second_reservation_charges_nothing(ledger: SqlLedger) -> None:
    part = Budget.gdp(Fraction(1, 100))
    charge(ledger, 1, part, THRESHOLD_DELTA)
    before = remaining(ledger)
    ledger.reserve(f"{1:064x}", part, None, THRESHOLD_DELTA)
    assert remaining(ledger) == before


def test_a_changed_total_keeps_free_what_the_thresholds_need_under_it(ledger: SqlLedger) -> None:
    part = budget_of(*without_threshold_delta(0.5, DELTA, THRESHOLD_DELTA), Currency.GDP)
    charge(ledger, 1, part, THRESHOLD_DELTA)
    ledger.raise_total("shop", 6.0, DELTA, "more")
    before = ledger.dataset("shop", 6.0, DELTA)
    assert before.total is not None
    assert remaining(ledger) == before.total - before.spent - before.kept_free < before.total - before.spent
    last = Budget.gdp(remaining(ledger))
    with pytest.raises(BudgetExceededError) as refused:
        charge(ledger, 2, Budget.gdp(last.amount + Fraction(1, 10**12)))
    assert refused.value.remaining == last.amount
    charge(ledger, 3, last)
    assert remaining(ledger) == 0
    epsilon = epsilon_with_threshold_delta(Budget.gdp(part.amount + last.amount), DELTA, THRESHOLD_DELTA)
    assert epsilon <= 6.0
    shown = ledger.dataset("shop", 6.0, DELTA)
    assert shown.spent > part.amount + last.amount
    assert epsilon_spent(shown, Currency.GDP) == epsilon > epsilon_alone(shown.spent, Currency.GDP, DELTA)


def test_what_is_kept_free_is_shown(ledger: SqlLedger) -> None:
    part = budget_of(*without_threshold_delta(0.5, DELTA, THRESHOLD_DELTA), Currency.GDP)
    charge(ledger, 1, part, THRESHOLD_DELTA)
    assert ledger.dataset("shop", EPSILON, DELTA).kept_free == 0, "its surcharge covers the threshold"
    ledger.raise_total("shop", 6.0, DELTA, "more")
    dataset = ledger.dataset("shop", 6.0, DELTA)
    assert f"; {float(dataset.kept_free):.6g} kept free for the thresholds of discovered items" in dataset_line(dataset)
    facts = dataset_facts(dataset)
    assert Fraction(facts["remaining"]["exact"]) == remaining(ledger)
    assert Fraction(facts["kept_free"]["exact"]) == dataset.kept_free > 0
    assert budget_row(dataset)[6] == f"{float(remaining(ledger)):.6g}"


def test_history_says_what_a_discovery_was_charged_beside_its_budget(ledger: SqlLedger) -> None:
    part = budget_of(*without_threshold_delta(0.5, DELTA, THRESHOLD_DELTA), Currency.GDP)
    charge(ledger, 1, part, THRESHOLD_DELTA)
    charge(ledger, 2, Budget.gdp(Fraction(1, 100)))
    discovery, other = ledger.history("shop")
    assert discovery.amount - discovery.surcharge == part.amount
    assert discovery.threshold_delta == THRESHOLD_DELTA
    assert discovery.surcharge > 0 == other.surcharge == other.threshold_delta
    dataset = ledger.verified("shop")
    shown = f"{float(discovery.surcharge):.3g} of it a surcharge for threshold delta 2.5e-07 of discovered items"
    assert shown in charge_line(discovery, dataset)
    assert "surcharge" not in charge_line(other, dataset)
    assert Fraction(charge_facts(discovery)["surcharge"]["exact"]) == discovery.surcharge


def test_a_ledger_whose_delta_is_too_small_for_its_thresholds_has_nothing_to_spend(ledger: SqlLedger) -> None:
    charge(ledger, 1, Budget.gdp(Fraction(1, 100)), THRESHOLD_DELTA)
    dataset = replace(ledger.verified("shop"), threshold_delta=Fraction(1, 1000))
    assert dataset.kept_free == dataset.total


def test_no_release_of_a_consumer_discovers_items(ledger: SqlLedger) -> None:
    ledger.grant_consumer("shop", "alice", 1.0, DELTA)
    release = "c" * 64
    planned = PlannedRelease(
        Identity(release, release, {}, "0"), "shop", Budget.gdp(Fraction(1, 100)), "/data", "f" * 64, "/state", ITEMS,
        consumer="alice", threshold_delta=THRESHOLD_DELTA,
    )  # fmt: skip
    with pytest.raises(NoBudgetError, match="no consumer"):
        ledger.plan(planned)


def test_add_remove_discoveries_of_a_replace_one_total_are_refused(ledger: SqlLedger) -> None:
    replacing = replace(ITEMS, neighbours=Neighbours.REPLACE_ONE_UNIT)
    release = "d" * 64
    identity = Identity(release, release, {}, "0")
    budget = Budget.gdp(Fraction(1, 100))
    ledger.plan(PlannedRelease(identity, "shop", budget, "/data", "f" * 64, "/state", replacing))
    ledger.reserve(release, budget)
    with pytest.raises((NoBudgetError, IntegrityError), match="replac"):
        charge(ledger, 1, budget, THRESHOLD_DELTA)
