"""One currency per dataset: what fixes it, what other releases cost in it, and which cannot be charged."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.stats import norm

from dpcore.errors import BudgetExceededError, ConfigError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from jobs.ledger import SqlLedger
from jobs.ledger.amounts import charged_amount
from jobs.ledger.records import Accounting
from tests.support.ledgers import planned, reserve

DELTA = 1e-6
SMALL = {currency: Budget(currency, Fraction(1, 100)) for currency in Currency}


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    return SqlLedger(ledger_url)


@pytest.mark.parametrize(("accounting", "currency"), [
    (Accounting.ZCDP, Currency.ZCDP), (Accounting.GDP, Currency.GDP), (Accounting.AUTO, None),
])  # fmt: skip
def test_delta_and_accounting_fix_the_currency(
    ledger: SqlLedger, accounting: Accounting, currency: Currency | None
) -> None:
    made = ledger.create_dataset("adult", 2.0, DELTA, accounting=accounting)
    assert made.currency is currency
    assert made.total == (None if currency is None else budget_of(2.0, DELTA, currency).amount)
    assert ledger.create_dataset("pure", 2.0, 0.0).total == 2


@pytest.mark.parametrize("first", Currency)
def test_the_first_reservation_fixes_an_open_currency_for_ever(ledger: SqlLedger, first: Currency) -> None:
    ledger.create_dataset("adult", 2.0, DELTA)
    ledger.grant_consumer("adult", "team", 1.0, DELTA)
    ledger.plan(planned(budget=SMALL[first]))
    assert ledger.dataset("adult", 2, DELTA).currency is None, "a plan spends nothing and fixes nothing"
    reserve(ledger, budget=SMALL[first])
    chosen = Currency.ZCDP if first is Currency.PURE else first
    dataset, team = ledger.dataset("adult", 2, DELTA), ledger.consumers("adult")[0]
    assert (dataset.currency, dataset.total) == (chosen, budget_of(2.0, DELTA, chosen).amount)
    assert team.total == budget_of(1.0, DELTA, chosen).amount
    assert dataset.spent == charged_amount(SMALL[first], chosen, "adult")
    assert [grant.amount for grant in ledger.grants("adult")] == [None, None, None, team.total, dataset.total]
    reserve(ledger, "b" * 64, budget=SMALL[Currency.GDP])
    assert ledger.dataset("adult", 2, DELTA).currency is chosen
    ledger.create_dataset("adult", 2.0, DELTA)  # Asked for again as it was first: nothing changes.
    assert [dataset.name for dataset in ledger.datasets()] == ["adult"], "every figure agrees with its grants"


def test_an_open_dataset_refuses_what_it_could_not_hold(ledger: SqlLedger) -> None:
    ledger.create_dataset("adult", 1.0, DELTA)
    with pytest.raises(BudgetExceededError, match="rho"):
        ledger.plan(planned(budget=budget_of(1.1, DELTA, Currency.ZCDP)))
    assert ledger.release(planned().release_id) is None
    reserve(ledger, budget=budget_of(1.0, DELTA, Currency.GDP))
    assert ledger.dataset("adult", 1, DELTA).remaining == 0


def test_prices_follow_their_theorems() -> None:
    pure, gdp = Budget.pure(Fraction(1, 10)), Budget.gdp(Fraction(1, 7))
    assert charged_amount(pure, Currency.ZCDP, "adult") == Fraction(1, 200)
    assert charged_amount(gdp, Currency.ZCDP, "adult") == Fraction(1, 14)
    for epsilon in (0.01, 0.1, 1.0, 5.0, 20.0):
        price = float(charged_amount(Budget.pure(epsilon), Currency.GDP, "adult"))
        exact = (2 * norm.isf(1 / (1 + math.exp(epsilon)))) ** 2  # From the tail that is small.
        assert exact <= price <= exact * (1 + 1e-8)


@pytest.mark.parametrize(("delta", "accounting", "budget", "says"), [
    (0.0, Accounting.AUTO, SMALL[Currency.ZCDP], "want privacy.delta: 0"),
    (0.0, Accounting.AUTO, SMALL[Currency.GDP], "want privacy.delta: 0"),
    (DELTA, Accounting.GDP, SMALL[Currency.ZCDP], "want privacy.accounting: gdp"),
])  # fmt: skip
def test_what_no_theorem_bounds_is_refused(
    ledger: SqlLedger, delta: float, accounting: Accounting, budget: Budget, says: str
) -> None:
    ledger.create_dataset("adult", 1.0, delta, accounting=accounting)
    with pytest.raises(NoBudgetError, match=says):
        ledger.plan(planned(budget=budget))
    assert ledger.history("adult") == []


def test_a_refused_gaussian_release_hears_the_price_in_zcdp(ledger: SqlLedger) -> None:
    """(1, 1e-6) costs more zCDP when it comes from Gaussian DP: then it does not fit, while in zCDP it just fits."""
    ledger.create_dataset("adult", 1.0, DELTA, accounting=Accounting.ZCDP)
    price = budget_of(1.0, DELTA, Currency.ZCDP)
    gaussian = budget_of(1.0, DELTA, Currency.GDP)
    assert gaussian.amount / 2 > price.amount
    with pytest.raises(BudgetExceededError, match=f"privacy.accounting: zcdp.* costs rho={float(price.amount):.6g}"):
        ledger.plan(planned(budget=gaussian, promise=(1.0, DELTA)))
    reserve(ledger, budget=price)
    assert ledger.dataset("adult", 1, DELTA).remaining == 0


def test_accounting_needs_a_delta(ledger: SqlLedger) -> None:
    with pytest.raises(ConfigError, match="needs delta > 0"):
        ledger.create_dataset("adult", 1.0, 0.0, accounting=Accounting.GDP)
    with pytest.raises(ConfigError, match="no such budget"):
        ledger.create_dataset("adult", 1.0, 1e-320, accounting=Accounting.GDP)
    assert ledger.datasets() == []


def test_figures_need_an_amount_in_every_currency_that_is_open(ledger: SqlLedger) -> None:
    """The first reservation chooses the currency, so the budget must have an amount in every possible one."""
    tiny, says = 1e-310, r"--epsilon 1 with --delta 1e-310 cannot be expressed in mu\^2"
    with pytest.raises(ConfigError, match=says):
        ledger.create_dataset("adult", 1.0, tiny)
    ledger.create_dataset("adult", 2.0, DELTA)
    with pytest.raises(ConfigError, match=says):
        ledger.grant_consumer("adult", "team", 1.0, tiny)
    ledger.create_dataset("zcdp", 1.0, tiny, accounting=Accounting.ZCDP)
    ledger.grant_consumer("zcdp", "team", 1.0, tiny)


def test_an_accounting_that_was_chosen_stays(ledger: SqlLedger) -> None:
    ledger.create_dataset("adult", 1.0, DELTA, accounting=Accounting.ZCDP)
    ledger.create_dataset("adult", 1.0, DELTA)
    with pytest.raises(ConfigError, match="already has a budget"):
        ledger.create_dataset("adult", 1.0, DELTA, accounting=Accounting.GDP)
