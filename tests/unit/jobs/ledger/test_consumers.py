"""Consumers share a dataset's total; windows limit their rate of spending and never restore budget."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpcore.errors import BudgetExceededError, ConfigError, NoBudgetError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from jobs.ledger.windows import Window
from tests.support.ledgers import FIRST, Clock, planned, reserve

TENTH = Budget.pure(Fraction(1, 10))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(ledger_url: str, clock: Clock) -> SqlLedger:
    made = SqlLedger(ledger_url, clock=clock)
    made.create_dataset("adult", 1.0, 0.0)
    return made


def pay(ledger: SqlLedger, number: int, consumer: str | None = "team", budget: Budget = TENTH) -> None:
    reserve(ledger, f"{number:064d}", budget, consumer=consumer)


def spent(ledger: SqlLedger, consumer: str = "team") -> Fraction:
    (found,) = [one for one in ledger.consumers("adult") if one.name == consumer]
    ledger.datasets()  # Raises when any sum differs from its charges.
    return found.spent


def test_a_release_is_charged_to_its_consumer_and_to_the_dataset(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "team", 0.2, 0.0)
    ledger.grant_consumer("adult", "others", 0.2, 0.0)
    pay(ledger, 1)
    pay(ledger, 2, "others")
    pay(ledger, 3, None)
    pay(ledger, 1)  # Again: paid already.
    assert (spent(ledger), spent(ledger, "others")) == (Fraction(1, 10), Fraction(1, 10))
    assert ledger.dataset("adult", 1, 0).spent == Fraction(3, 10)
    assert [charge.consumer for charge in ledger.history("adult")] == ["team", "others", None]


def test_a_consumer_ends_at_its_limit_and_others_go_on(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "team", 0.2, 0.0)
    pay(ledger, 1)
    pay(ledger, 2)
    with pytest.raises(BudgetExceededError, match="consumer 'team' of dataset 'adult'"):
        pay(ledger, 3)
    pay(ledger, 4, None)
    assert ledger.dataset("adult", 1, 0).spent == Fraction(3, 10)


def test_the_total_bounds_every_consumer(ledger: SqlLedger, clock: Clock) -> None:
    ledger.grant_consumer("adult", "team", 0.4, 0.0, Window.DAY)
    for day, number in ((day, 4 * day + part) for day in (1, 2) for part in range(4)):
        clock.set(2026, 12, day)
        pay(ledger, number)
    clock.set(2026, 12, 3)
    pay(ledger, 20)
    pay(ledger, 21)
    with pytest.raises(BudgetExceededError, match="a release of dataset 'adult'"):
        pay(ledger, 22)
    assert ledger.dataset("adult", 1, 0).remaining == 0


def test_an_unknown_consumer_is_refused_with_the_command_that_adds_it(ledger: SqlLedger) -> None:
    with pytest.raises(
        NoBudgetError, match="budget grant --ledger .* --dataset adult --consumer 'the team' --epsilon 0.5 --delta 0"
    ):
        ledger.plan(planned(budget=TENTH, consumer="the team", promise=(0.5, 0.0)))
    assert ledger.release(FIRST) is None


def test_a_dataset_for_consumers_only_refuses_releases_without_one(ledger: SqlLedger) -> None:
    ledger.create_dataset("shared", 1.0, 0.0, consumers_only=True)
    ledger.grant_consumer("shared", "team", 0.2, 0.0)
    with pytest.raises(NoBudgetError, match="want privacy.consumer"):
        reserve(ledger, FIRST, TENTH, dataset="shared")
    reserve(ledger, FIRST, TENTH, dataset="shared", consumer="team")


@pytest.mark.parametrize(("window", "later"), [
    (Window.DAY, (2026, 11, 21)), (Window.MONTH, (2026, 12, 1)), (Window.YEAR, (2027, 1, 1)),
])  # fmt: skip
def test_a_window_ends_with_its_calendar(
    ledger: SqlLedger, clock: Clock, window: Window, later: tuple[int, int, int]
) -> None:
    ledger.grant_consumer("adult", "team", 0.1, 0.0, window)
    pay(ledger, 1)
    clock.set(2026, 11, 20, 23, 59, 59)
    with pytest.raises(BudgetExceededError) as refused:
        pay(ledger, 2)
    assert refused.value.remaining == 0
    clock.set(*later)
    assert spent(ledger) == 0
    pay(ledger, 3)
    assert spent(ledger) == Fraction(1, 10)
    with pytest.raises(BudgetExceededError, match=f"in the {window.value} from"):
        pay(ledger, 4)


def test_without_a_window_the_limit_is_for_ever(ledger: SqlLedger, clock: Clock) -> None:
    ledger.grant_consumer("adult", "team", 0.1, 0.0)
    pay(ledger, 1)
    clock.set(2099, 1, 1)
    with pytest.raises(BudgetExceededError):
        pay(ledger, 2)


def test_a_clock_that_goes_backwards_opens_no_window_twice(ledger: SqlLedger, clock: Clock) -> None:
    ledger.grant_consumer("adult", "team", 0.1, 0.0, Window.MONTH)
    pay(ledger, 1)
    clock.set(2026, 12, 1)
    pay(ledger, 2)
    clock.set(2026, 11, 30)
    assert spent(ledger) == Fraction(1, 10), "what was spent in the later window stays in sight"
    with pytest.raises(BudgetExceededError):
        pay(ledger, 3)
    clock.set(2026, 12, 31)
    with pytest.raises(BudgetExceededError):
        pay(ledger, 3)
    clock.set(2027, 1, 1)
    pay(ledger, 3)


def test_a_clock_that_ran_ahead_costs_pace_but_no_budget(ledger: SqlLedger, clock: Clock) -> None:
    ledger.grant_consumer("adult", "team", 0.1, 0.0, Window.MONTH)
    clock.set(2027, 1, 1)
    pay(ledger, 1)
    for date in ((2026, 11, 20), (2026, 12, 1), (2027, 1, 31)):
        clock.set(*date)
        with pytest.raises(BudgetExceededError):
            pay(ledger, 2)
    clock.set(2027, 2, 1)
    pay(ledger, 2)


def test_a_limit_may_change_and_every_change_stays_on_record(ledger: SqlLedger, clock: Clock) -> None:
    ledger.grant_consumer("adult", "team", 0.2, 0.0, reason="pilot")
    pay(ledger, 1)
    clock.set(2026, 11, 21)
    for _ in range(2):
        ledger.grant_consumer("adult", "team", 0.1, 0.0, reason="over")
    with pytest.raises(BudgetExceededError):
        pay(ledger, 2)
    ledger.grant_consumer("adult", "team", 0.3, 0.0, reason="again")
    pay(ledger, 2)
    found = [(grant.consumer, grant.epsilon, grant.reason, grant.granted[:10]) for grant in ledger.grants("adult")]
    assert found == [
        (None, 1.0, "created", "2026-11-20"),
        ("team", 0.2, "pilot", "2026-11-20"),
        (None, 1.0, "bound by the first release", "2026-11-20"),
        ("team", 0.1, "over", "2026-11-21"),
        ("team", 0.3, "again", "2026-11-21"),
    ]


def test_a_window_is_chosen_once(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "team", 0.2, 0.0, Window.MONTH)
    with pytest.raises(ConfigError, match="has window month"):
        ledger.grant_consumer("adult", "team", 0.2, 0.0, Window.DAY)


@pytest.mark.parametrize(("dataset_delta", "delta"), [(0.0, 1e-6), (1e-6, 0.0)])
def test_a_consumer_is_counted_as_its_dataset_is(ledger: SqlLedger, dataset_delta: float, delta: float) -> None:
    ledger.create_dataset("other", 1.0, dataset_delta)
    with pytest.raises(ConfigError, match="as for dataset 'other'"):
        ledger.grant_consumer("other", "team", 0.2, delta)


def test_a_total_is_raised_with_a_reason_and_never_lowered(ledger: SqlLedger) -> None:
    for number in range(10):
        pay(ledger, number, None)
    with pytest.raises(BudgetExceededError):
        pay(ledger, 10, None)
    assert ledger.raise_total("adult", 1.5, 0.0, "decision 12").total == Fraction(3, 2)
    pay(ledger, 10, None)
    with pytest.raises(ConfigError, match="never lowered"):
        ledger.raise_total("adult", 1.2, 0.0, "less")
    with pytest.raises(ConfigError, match="cannot be changed"):
        ledger.raise_total("adult", 2.0, 1e-6, "another delta")
    ledger.raise_total("adult", 1.5, 0.0, "again")
    grants = [(grant.epsilon, grant.reason) for grant in ledger.grants("adult")]
    assert grants == [(1, "created"), (1, "bound by the first release"), (1.5, "decision 12")]
    assert ledger.create_dataset("adult", 1.0, 0.0).total == Fraction(3, 2), "asked for as first: nothing changes"
    assert ledger.datasets()[0].remaining == Fraction(2, 5)


@pytest.mark.parametrize("ask", [
    lambda ledger: ledger.raise_total("none", 1.0, 0.0, "why"),
    lambda ledger: ledger.grant_consumer("none", "team", 1.0, 0.0),
])  # fmt: skip
def test_a_grant_needs_a_dataset(ledger: SqlLedger, ask: object) -> None:
    assert callable(ask)
    with pytest.raises(NoBudgetError, match="dataset 'none' has no budget"):
        ask(ledger)


def test_a_refusal_names_what_would_fit_and_the_next_step(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "daily", 0.25, 0.0, Window.DAY)
    promise = (0.2, 0.0)
    reserve(ledger, FIRST, Budget.pure(Fraction(1, 5)), consumer="daily")
    with pytest.raises(
        BudgetExceededError, match=r"want privacy.epsilon at most 0.05, another day, or more by marquee"
    ):
        ledger.plan(planned("b" * 64, budget=Budget.pure(Fraction(1, 5)), consumer="daily", promise=promise))
    ledger.grant_consumer("adult", "daily", 0.1, 0.0, Window.DAY)
    with pytest.raises(BudgetExceededError, match=r"only epsilon=0 remains.*want another day, or more by marquee"):
        ledger.plan(planned("b" * 64, budget=Budget.pure(Fraction(1, 5)), consumer="daily", promise=promise))
