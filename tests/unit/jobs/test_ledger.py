"""The ledger: one budget a dataset, charged exactly, atomically and once a release."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpcore.errors import (
    BudgetExceededError,
    ConfigError,
    IntegrityError,
    LedgerUnavailableError,
    MarqueeError,
    NoBudgetError,
)
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import zcdp_of
from jobs.ledger import SqlLedger
from jobs.ledger_records import PlannedRelease, State

PURE = Budget.pure(Fraction(1, 3))


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    made = SqlLedger(url(tmp_path))
    made.create_dataset("adult", 1.0, 0.0)
    return made


def planned(release_id: str = "a" * 64, **changes: object) -> PlannedRelease:
    values: dict[str, object] = {
        "dataset": "adult",
        "budget": PURE,
        "path": "/data/adult",
        "fingerprint": "f",
        "state_folder": "/out/.marquee/a",
    }
    return PlannedRelease(release_id=release_id, **{**values, **changes})  # type: ignore[arg-type]


def reserve(ledger: SqlLedger, release_id: str, budget: Budget = PURE) -> None:
    ledger.plan(planned(release_id, budget=budget))
    ledger.reserve(release_id, budget)


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
    assert ledger.release("a" * 64) is None
    assert ledger.dataset("adult", 1, 0).path is None


def test_reserving_again_changes_nothing(ledger: SqlLedger) -> None:
    reserve(ledger, "a" * 64)
    reserve(ledger, "a" * 64)
    assert len(ledger.history("adult")) == 1


def test_reserving_another_amount_is_refused(ledger: SqlLedger) -> None:
    ledger.plan(planned())
    with pytest.raises(IntegrityError):
        ledger.reserve("a" * 64, Budget.pure(Fraction(1, 4)))
    assert ledger.history("adult") == []


def test_a_release_that_was_never_planned_is_refused(ledger: SqlLedger) -> None:
    with pytest.raises(IntegrityError):
        ledger.reserve("a" * 64, PURE)


def test_states_only_move_forward(ledger: SqlLedger) -> None:
    def state() -> State:
        record = ledger.release("a" * 64)
        assert record is not None
        return record.state

    reserve(ledger, "a" * 64)
    assert state() is State.RESERVED
    ledger.advance("a" * 64, State.ESTIMATED, journal_head="h")
    ledger.advance("a" * 64, State.AGGREGATED)
    assert state() is State.ESTIMATED
    ledger.advance("a" * 64, State.PUBLISHED, output="/out/adult")
    record = ledger.release("a" * 64)
    assert record is not None
    assert (record.state, record.journal_head, record.output) == (State.PUBLISHED, "h", "/out/adult")


def test_a_release_has_one_journal(ledger: SqlLedger) -> None:
    reserve(ledger, "a" * 64)
    for state, head in ((State.MEASURING, "first"), (State.ESTIMATED, "whole")):
        for _ in range(2):
            ledger.advance("a" * 64, state, journal_head=head)
        with pytest.raises(IntegrityError, match="another run"):
            ledger.advance("a" * 64, state, journal_head="of another machine")
    with pytest.raises(IntegrityError, match="another run"):
        ledger.advance("a" * 64, State.MEASURING, journal_head="of a slower machine")
    record = ledger.release("a" * 64)
    assert record is not None
    assert (record.state, record.journal_head) == (State.ESTIMATED, "whole")


def test_a_pure_release_on_a_zcdp_dataset_costs_half_its_square(ledger: SqlLedger) -> None:
    ledger.create_dataset("retail", 1.0, 1e-6)
    assert ledger.dataset("retail", 1, 1e-6).total == zcdp_of(1.0, 1e-6)
    ledger.plan(planned(dataset="retail", budget=Budget.pure(Fraction(1, 10))))
    ledger.reserve("a" * 64, Budget.pure(Fraction(1, 10)))
    assert ledger.dataset("retail", 1, 1e-6).spent == Fraction(1, 200)


def test_a_zcdp_release_on_a_pure_dataset_is_refused(ledger: SqlLedger) -> None:
    with pytest.raises(NoBudgetError, match="delta: 0"):
        ledger.plan(planned(budget=Budget.zcdp(Fraction(1, 100))))


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
    again = ledger.create_dataset("adult", 1.0, 0.0)
    assert again.salt == ledger.dataset("adult", 1, 0).salt
    with pytest.raises(ConfigError, match="has a budget already"):
        ledger.create_dataset("adult", 2.0, 0.0)
    assert len({ledger.create_dataset(name, 1.0, 0.0).salt for name in ("x", "y", "adult")}) == 3


def test_secrets_are_not_shown(ledger: SqlLedger) -> None:
    budget = ledger.dataset("adult", 1, 0)
    assert repr(budget.salt) not in repr(budget)
    assert repr(budget.fingerprint_key) not in repr(budget)


def test_the_missing_budget_comes_with_its_command(ledger: SqlLedger, tmp_path: Path) -> None:
    with pytest.raises(NoBudgetError) as missing:
        ledger.dataset("my data", 1.0, 1e-6)
    command = f"marquee budget create --ledger {url(tmp_path)} --dataset 'my data' --epsilon 1 --delta 1e-06"
    assert command in str(missing.value)
    with pytest.raises(NoBudgetError, match=r"--epsilon 0\.1234567 "):
        ledger.dataset("my data", 0.1234567, 1e-6)


def test_only_creating_a_budget_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(NoBudgetError, match="marquee budget create"):
        SqlLedger(url(tmp_path)).dataset("adult", 1.0, 0.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("address", "says"), [
    ("nonsense", "not a database URL"),
    ("sybase://host/db", "unknown kind of database"),
    ("mysql://host/db", "unknown kind of database"),
    ("sqlite:////no/such/folder/l.db", "folder"),
])  # fmt: skip
def test_a_bad_url_is_a_config_error(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SqlLedger(address).create_dataset("adult", 1.0, 0.0)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("not a database " * 100)
    with pytest.raises(MarqueeError, match="want a database of Marquee"):
        SqlLedger(url(tmp_path)).dataset("adult", 1.0, 0.0)


def test_a_password_is_never_shown() -> None:
    address = "postgresql+psycopg://me:secret@127.0.0.1:1/db"
    with pytest.raises((ConfigError, LedgerUnavailableError)) as refused:  # Its driver, or its server, is missing.
        SqlLedger(address).create_dataset("adult", 1.0, 0.0)
    assert "127.0.0.1" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_locked_ledger_is_unavailable(ledger: SqlLedger, tmp_path: Path) -> None:
    holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailableError, match="try again"):
        SqlLedger(url(tmp_path), lock_seconds=0.05).plan(planned())
    holder.execute("ROLLBACK")
    holder.close()
    ledger.plan(planned())


@pytest.mark.parametrize("statement", ["UPDATE charges SET amount = '0'", "DELETE FROM charges"])
def test_charges_are_append_only(ledger: SqlLedger, tmp_path: Path, statement: str) -> None:
    reserve(ledger, "a" * 64)
    with (
        sqlite3.connect(tmp_path / "ledger.db") as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)


SPEND = """
import sys
from fractions import Fraction
from dpcore.errors import BudgetExceededError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from jobs.ledger_records import PlannedRelease
address, worker = sys.argv[1:]
ledger, budget = SqlLedger(address), Budget.pure(Fraction(1, 10))
for number in range(8):
    release = f"{worker}-{number}"
    try:
        ledger.plan(PlannedRelease(release, "adult", budget, "/data", "f", "/out"))
        ledger.reserve(release, budget)
    except BudgetExceededError:
        pass
"""


def test_processes_that_race_cannot_overspend(ledger: SqlLedger, tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", SPEND, url(tmp_path), str(worker)], stderr=subprocess.PIPE)
        for worker in range(2)
    ]
    assert [(worker.communicate()[1], worker.returncode) for worker in workers] == [(b"", 0)] * 2
    assert len(ledger.history("adult")) == 10
    assert ledger.dataset("adult", 1, 0).remaining == 0


def test_the_currencies_are_those_of_the_kernel(ledger: SqlLedger) -> None:
    assert ledger.dataset("adult", 1, 0).currency is Currency.PURE
    assert ledger.create_dataset("retail", 1.0, 1e-6).currency is Currency.ZCDP
    assert [dataset.name for dataset in ledger.datasets()] == ["adult", "retail"]
