"""A dataset whose data have moved keeps its budget, and the ledger records the move."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpcore.errors import ConfigError, NoBudgetError
from jobs.ledger import SqlLedger
from tests.support.ledgers import PURE, planned, reserve


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    made = SqlLedger(ledger_url)
    made.create_dataset("adult", 1.0, 0.0)
    made.create_dataset("retail", 1.0, 0.0)
    reserve(made, path="/data/adult")
    made.plan(planned("b" * 64, dataset="retail", path="/data/retail"))
    return made


def test_a_moved_dataset_runs_from_its_new_path_alone_on_what_is_left(ledger: SqlLedger) -> None:
    moved = ledger.move("adult", "/new/adult", "new disk")
    assert (moved.path, moved.spent, moved.total) == ("/new/adult", PURE.amount, Fraction(1))
    with pytest.raises(ConfigError, match="bound to /new/adult"):
        ledger.plan(planned("c" * 64, path="/data/adult"))
    reserve(ledger, "c" * 64, path="/new/adult")
    assert ledger.verified("adult").spent == 2 * PURE.amount


def test_a_move_is_on_record_with_the_budget_as_it_is(ledger: SqlLedger) -> None:
    ledger.move("adult", "/new/adult", "new disk")
    created, moved = ledger.grants("adult")
    assert (moved.consumer, moved.epsilon, moved.delta, moved.amount) == (None, 1.0, 0.0, created.amount)
    assert moved.reason == "moved to /new/adult: new disk"
    ledger.move("adult", "/new/adult", "again")
    assert len(ledger.grants("adult")) == 2, "nothing moved the second time"
    ledger.datasets()  # The record explains the total still.


def test_a_dataset_may_move_within_its_own_folder(ledger: SqlLedger) -> None:
    assert ledger.move("adult", "/data/adult/all", "tidied").path == "/data/adult/all"


@pytest.mark.parametrize("path", ["/data/retail", "/data/retail/part", "/data"])
def test_the_path_of_another_dataset_is_refused(ledger: SqlLedger, path: str) -> None:
    with pytest.raises(ConfigError, match="belongs to dataset 'retail'"):
        ledger.move("adult", path, "reason")
    assert ledger.dataset("adult", 1, 0).path == "/data/adult"
    assert len(ledger.grants("adult")) == 1


def test_only_what_is_bound_moves(ledger: SqlLedger) -> None:
    ledger.create_dataset("new", 1.0, 0.0)
    with pytest.raises(ConfigError, match="its first run will bind it"):
        ledger.move("new", "/new", "reason")
    with pytest.raises(NoBudgetError):
        ledger.move("none", "/new", "reason")
