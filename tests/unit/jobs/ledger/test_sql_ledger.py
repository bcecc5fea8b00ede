"""The ledger: one budget per dataset, charged exactly, atomically and once per release, on both databases."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from jobs.ledger import SqlLedger
from jobs.ledger.records import Accounting, ReleaseRecord, State
from tests.support.datasets import ROOT
from tests.support.ledgers import FIRST, PURE, past_the_ledger, planned, reserve

HEADS = [f"{number:064x}" for number in range(4)]


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    made = SqlLedger(ledger_url)
    made.create_dataset("adult", 1.0, 0.0)
    return made


def release(ledger: SqlLedger) -> ReleaseRecord:
    record = ledger.release(FIRST)
    assert record is not None
    return record


def test_amounts_are_exact(ledger: SqlLedger) -> None:
    for number in range(3):
        reserve(ledger, str(number) * 64)
    assert ledger.dataset("adult", 1, 0).remaining == 0
    assert [charge.amount for charge in ledger.history("adult")] == [Fraction(1, 3)] * 3
    with pytest.raises(BudgetExceededError) as refused:
        ledger.plan(planned("3" * 64, budget=Budget.pure(Fraction(1, 2**70))))
    assert refused.value.remaining == 0


def test_a_refused_release_leaves_no_trace(ledger: SqlLedger) -> None:
    with pytest.raises(BudgetExceededError):
        ledger.plan(planned(budget=Budget.pure(2)))
    assert ledger.release(FIRST) is None
    assert ledger.dataset("adult", 1, 0).path is None


def test_a_reservation_that_no_longer_fits_charges_nothing(ledger: SqlLedger) -> None:
    half = Budget.pure(Fraction(1, 2) + Fraction(1, 100))
    for release_id in ("a" * 64, "b" * 64):
        ledger.plan(planned(release_id, budget=half))
    ledger.reserve("a" * 64, half)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("b" * 64, half)
    assert [charge.release_id for charge in ledger.history("adult")] == ["a" * 64]
    assert ledger.dataset("adult", 1, 0).spent == half.amount


def test_reserving_again_changes_nothing(ledger: SqlLedger) -> None:
    reserve(ledger)
    reserve(ledger)
    assert len(ledger.history("adult")) == 1
    assert ledger.dataset("adult", 1, 0).spent == PURE.amount


def test_reserving_another_amount_is_refused(ledger: SqlLedger) -> None:
    ledger.plan(planned())
    with pytest.raises(IntegrityError):
        ledger.reserve(FIRST, Budget.pure(Fraction(1, 4)))
    assert ledger.history("adult") == []


def test_a_release_that_was_never_planned_is_refused(ledger: SqlLedger) -> None:
    with pytest.raises(IntegrityError):
        ledger.reserve(FIRST, PURE)


def test_states_only_move_forward(ledger: SqlLedger) -> None:
    reserve(ledger)
    assert release(ledger).state is State.RESERVED
    ledger.advance(FIRST, State.ESTIMATED)
    ledger.advance(FIRST, State.AGGREGATED)
    assert release(ledger).state is State.ESTIMATED
    ledger.advance(FIRST, State.PUBLISHED, output="/out/adult")
    assert (release(ledger).state, release(ledger).output) == (State.PUBLISHED, "/out/adult")


def test_answers_are_counted_with_the_hash_of_the_last(ledger: SqlLedger) -> None:
    reserve(ledger)
    before = None
    for number, head in enumerate(HEADS):
        for _ in range(2):  # A process that was cut off from the ledger tells it again.
            ledger.record_answer(FIRST, number, before, head)
        assert release(ledger).state is State.MEASURING
        assert (release(ledger).answers, release(ledger).journal_head) == (number + 1, head)
        before = head
    ledger.advance(FIRST, State.ESTIMATED, journal_head=HEADS[-1])
    assert release(ledger).state is State.ESTIMATED


@pytest.mark.parametrize(("number", "before", "head"), [
    (0, None, "of another machine"),
    (1, HEADS[0], "of another machine"),
    (2, "of another machine", HEADS[2]),
    (3, HEADS[2], HEADS[3]),
])  # fmt: skip
def test_other_answers_of_the_same_release_are_refused(
    ledger: SqlLedger, number: int, before: str | None, head: str
) -> None:
    reserve(ledger)
    ledger.record_answer(FIRST, 0, None, HEADS[0])
    ledger.record_answer(FIRST, 1, HEADS[0], HEADS[1])
    with pytest.raises(IntegrityError, match="another run"):
        ledger.record_answer(FIRST, number, before, head)
    assert (release(ledger).answers, release(ledger).journal_head) == (2, HEADS[1])
    with pytest.raises(IntegrityError, match="another run"):
        ledger.advance(FIRST, State.ESTIMATED, journal_head="of another machine")
    assert release(ledger).state is State.MEASURING


def test_an_answer_before_its_charge_is_refused(ledger: SqlLedger) -> None:
    ledger.plan(planned())
    with pytest.raises(IntegrityError, match="no charge"):
        ledger.record_answer(FIRST, 0, None, HEADS[0])
    assert release(ledger).state is State.PLANNED


def test_a_finished_release_takes_no_more_answers(ledger: SqlLedger) -> None:
    reserve(ledger)
    ledger.record_answer(FIRST, 0, None, HEADS[0])
    ledger.advance(FIRST, State.ESTIMATED, journal_head=HEADS[0])
    with pytest.raises(IntegrityError, match="another run"):
        ledger.record_answer(FIRST, 1, HEADS[0], HEADS[1])


@pytest.mark.parametrize("path", ["/data/adult", "/data/adult/part-0.parquet", "/data"])
def test_a_name_is_bound_to_its_path_and_the_path_to_its_name(ledger: SqlLedger, path: str) -> None:
    ledger.plan(planned())
    with pytest.raises(ConfigError, match="bound to /data/adult"):
        ledger.plan(planned("b" * 64, path="/data/other"))
    ledger.create_dataset("second", 1.0, 0.0)
    with pytest.raises(ConfigError, match="belongs to dataset 'adult'"):
        ledger.plan(planned("b" * 64, dataset="second", path=path))
    assert ledger.release("b" * 64) is None


def test_a_path_beside_a_bound_one_is_free(ledger: SqlLedger) -> None:
    ledger.plan(planned())
    ledger.create_dataset("second", 1.0, 0.0)
    ledger.plan(planned("b" * 64, dataset="second", path="/data/adult-2"))


def test_other_input_under_one_id_is_refused(ledger: SqlLedger) -> None:
    ledger.plan(planned())
    with pytest.raises(IntegrityError, match="other input"):
        ledger.plan(planned(fingerprint="g"))


def test_a_budget_is_set_once(ledger: SqlLedger) -> None:
    before = ledger.secrets("adult")
    ledger.create_dataset("adult", 1.0, 0.0)
    assert ledger.secrets("adult") == before
    for other, says in (((2.0, 0.0), "epsilon 1 instead of 2"), ((1.0, 1e-6), "delta 0 instead of 1e-06")):
        with pytest.raises(ConfigError, match=f"with {says}; marquee budget grant can raise epsilon"):
            ledger.create_dataset("adult", *other)
    with pytest.raises(ConfigError, match="consumers_only false instead of true; .* nothing else can be changed"):
        ledger.create_dataset("adult", 1.0, 0.0, consumers_only=True)
    ledger.create_dataset("open", 1.0, 1e-6)
    with pytest.raises(ConfigError, match="accounting auto instead of gdp; .* nothing else can be changed"):
        ledger.create_dataset("open", 1.0, 1e-6, accounting=Accounting.GDP)
    assert len({ledger.secrets(ledger.create_dataset(name, 1.0, 0.0).name).salt for name in ("x", "y", "adult")}) == 3
    assert [dataset.name for dataset in ledger.datasets()] == ["adult", "open", "x", "y"]


def test_secrets_are_not_shown(ledger: SqlLedger) -> None:
    secrets = ledger.secrets("adult")
    assert repr(secrets.salt) not in repr(secrets)
    assert repr(secrets.fingerprint_key) not in repr(secrets)


def test_secrets_are_of_a_known_dataset_and_never_empty(ledger: SqlLedger, ledger_url: str) -> None:
    with pytest.raises(NoBudgetError, match="dataset 'other' has no budget"):
        ledger.secrets("other")
    past_the_ledger(ledger_url, "UPDATE datasets SET fingerprint_key = ''")
    with pytest.raises(IntegrityError, match="secrets of a dataset holds a value that Marquee never writes"):
        ledger.secrets("adult")


def test_the_missing_budget_comes_with_its_command(ledger: SqlLedger) -> None:
    with pytest.raises(NoBudgetError) as missing:
        ledger.dataset("my data", 1.0, 1e-6)
    assert "marquee budget create --ledger " in str(missing.value)
    assert "--dataset 'my data' --epsilon 1 --delta 1e-06" in str(missing.value)
    assert ledger.shown_url in str(missing.value)
    with pytest.raises(NoBudgetError, match=r"--epsilon 0\.1234567 "):
        ledger.dataset("my data", 0.1234567, 1e-6)


def test_a_place_without_a_ledger_has_no_budgets(ledger_url: str) -> None:
    empty = SqlLedger(ledger_url)
    assert (empty.datasets(), empty.release(FIRST)) == ([], None)
    for ask in (lambda: empty.dataset("adult", 1, 0), lambda: empty.history("adult")):
        with pytest.raises(NoBudgetError):
            ask()


SPEND = """
import sys
from fractions import Fraction
from dpcore.errors import BudgetExceededError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from tests.support.ledgers import planned
address, worker = sys.argv[1:]
ledger, budget = SqlLedger(address), Budget.pure(Fraction(1, 10))
ledger.create_dataset("adult", 1.0, 0.0)
for number in range(8):
    release = f"{worker}-{number}"
    try:
        ledger.plan(planned(release, budget=budget))
        ledger.reserve(release, budget)
    except BudgetExceededError:
        pass
"""


def test_processes_that_race_from_the_first_table_on_cannot_overspend(ledger_url: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", SPEND, ledger_url, str(worker)], stderr=subprocess.PIPE, cwd=ROOT)
        for worker in range(2)
    ]
    assert [(worker.communicate()[1], worker.returncode) for worker in workers] == [(b"", 0)] * 2
    ledger = SqlLedger(ledger_url)
    assert len(ledger.history("adult")) == 10
    assert ledger.dataset("adult", 1, 0).remaining == 0
    assert ledger.dataset("adult", 1, 0).currency is Currency.PURE


def test_another_manifest_of_a_published_release_is_an_integrity_error(ledger: SqlLedger) -> None:
    reserve(ledger)
    assert release(ledger).manifest_sha256 is None
    for _ in range(2):
        ledger.advance(FIRST, State.PUBLISHED, output="/out", manifest="e" * 64)
    ledger.advance(FIRST, State.PUBLISHED, output="/out")
    with pytest.raises(IntegrityError, match="manifest.json of release aaaaaaaaaaaa in /out is not the one"):
        ledger.advance(FIRST, State.PUBLISHED, output="/out", manifest="f" * 64)
    assert release(ledger).manifest_sha256 == "e" * 64


def test_every_ledger_has_its_own_id(ledger: SqlLedger, ledger_url: str, tmp_path: Path) -> None:
    other = SqlLedger(f"sqlite:///{tmp_path / 'other.db'}")
    assert other.ledger_id() is None
    other.create_dataset("adult", 1.0, 0.0)
    assert ledger.ledger_id() == SqlLedger(ledger_url).ledger_id() != other.ledger_id()
    assert re.fullmatch("[0-9a-f]{16}", other.ledger_id() or "")
