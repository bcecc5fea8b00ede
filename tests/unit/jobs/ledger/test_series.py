"""The ledger charges a series once, gives each step one release, and knows what every step has read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import pytest

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.ledger.windows import Window
from jobs.planning.series import SeriesFacts
from tests.support.ledgers import PURE, past_the_ledger, planned

SERIES = SeriesFacts("5" * 64, 1, 40, "day", "6" * 64)


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    made = SqlLedger(ledger_url)
    made.create_dataset("adult", 0.5, 0.0)  # For one charge of a third, and not for two.
    return made


def step(number: int, **changes: object) -> SeriesFacts:
    return replace(SERIES, step=number, **changes)  # type: ignore[arg-type]


def release_id(number: int, letter: str = "a") -> str:
    return f"{letter}{number:063}"


def take(ledger: SqlLedger, number: int, letter: str = "a", **changes: object) -> None:
    """Plans, charges and finishes one step."""
    name, series = release_id(number, letter), step(number)
    ledger.plan(planned(name, series=series, **changes))
    ledger.reserve(name, PURE, series)
    ledger.record_answer(name, 0, None, "h")
    ledger.advance(name, State.ESTIMATED)


def test_all_steps_cost_one_charge(ledger: SqlLedger) -> None:
    for number in range(1, 41):
        take(ledger, number)
    amounts = [charge.amount for charge in ledger.history("adult")]
    assert amounts == [Fraction(1, 3), *[Fraction(0)] * 39]
    assert ledger.dataset("adult", 1, 0).spent == Fraction(1, 3)
    assert ledger.series.paid_by(step(40), release_id(40)) == release_id(1)
    assert ledger.series.paid_by(step(1), release_id(1)) is None
    assert [record.release_id for record in ledger.series.earlier_releases(step(3))] == [release_id(1), release_id(2)]
    with pytest.raises(BudgetExceededError):
        ledger.plan(planned("b" * 64))


def test_the_consumer_pays_once_too(ledger: SqlLedger) -> None:
    ledger.grant_consumer("adult", "team", 0.4, 0.0, Window.MONTH)
    for number in (1, 2, 3):
        take(ledger, number, consumer="team")
    (team,) = ledger.consumers("adult")
    assert team.spent == Fraction(1, 3)
    assert len(ledger.history("adult")) == 3


def test_a_step_belongs_to_one_release_for_ever(ledger: SqlLedger) -> None:
    take(ledger, 1)
    take(ledger, 2)
    for number in (1, 2):
        with pytest.raises(IntegrityError, match="a second draw of a step"):
            ledger.plan(planned(release_id(number, "b"), series=step(number)))
    assert len(ledger.history("adult")) == 2


def test_two_that_race_for_a_step_cannot_both_have_it(ledger: SqlLedger, ledger_url: str) -> None:
    take(ledger, 1)
    names = [release_id(2, letter) for letter in "abcd"]
    for name in names:
        ledger.plan(planned(name, series=step(2)))  # None of them is charged yet.

    def charged(name: str) -> bool:
        try:
            SqlLedger(ledger_url).reserve(name, PURE, step(2))
        except IntegrityError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(charged, names)) == [False, False, False, True]
    assert len(ledger.history("adult")) == 2


def test_steps_come_in_order_and_after_the_answers_before_them(ledger: SqlLedger) -> None:
    with pytest.raises(ConfigError, match="want series.step 1 first"):
        ledger.plan(planned(release_id(2), series=step(2)))
    take(ledger, 1)
    with pytest.raises(ConfigError, match="want series.step 2 next"):
        ledger.plan(planned(release_id(3), series=step(3)))
    ledger.plan(planned(release_id(2), series=step(2)))
    ledger.reserve(release_id(2), PURE, step(2))
    with pytest.raises(ConfigError, match="needs the answers of step 2"):
        ledger.plan(planned(release_id(3), series=step(3)))


@pytest.mark.parametrize("change", [{"strategy": "7" * 64}, {"steps": 41}])
def test_another_strategy_is_not_paid_for(ledger: SqlLedger, change: dict[str, object]) -> None:
    take(ledger, 1)
    with pytest.raises(IntegrityError, match="another strategy than its first step"):
        ledger.plan(planned(release_id(2), series=step(2, **change)))


def test_a_step_that_has_read_other_rows_is_refused(ledger: SqlLedger) -> None:
    take(ledger, 1)
    ledger.series.compare_history(step(1), "none", "one")
    take(ledger, 2)
    with pytest.raises(IntegrityError, match="reads other rows of earlier steps"):
        ledger.series.compare_history(step(2), "another", "two")
    ledger.series.compare_history(step(2), "one", "two")
    ledger.series.compare_history(step(2), "one", "two")
    with pytest.raises(IntegrityError, match="has read other rows before"):
        ledger.series.compare_history(step(2), "one", "other")
    with pytest.raises(IntegrityError, match="reads other rows of earlier steps"):
        ledger.series.compare_history(step(3), "one", "three")


def test_a_free_charge_without_a_series_is_seen(ledger: SqlLedger, ledger_url: str) -> None:
    take(ledger, 1)
    ledger.plan(planned("c" * 64, series=step(2)))
    values = f"'adult', NULL, '', '{'c' * 64}', '0', '1/3', '0', '2026-11-01'"
    columns = "dataset, consumer, window_start, release_id, amount, spent, consumer_spent, charged"
    past_the_ledger(
        ledger_url,
        f"INSERT INTO charges ({columns}) VALUES ({values})",
        f"UPDATE releases SET state = 'reserved' WHERE release_id = '{'c' * 64}'",
    )
    with pytest.raises(IntegrityError, match="was charged nothing"):
        ledger.history("adult")
