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
    created, _, moved = ledger.grants("adult")
    assert (moved.consumer, moved.epsilon, moved.delta, moved.amount) == (None, 1.0, 0.0, created.amount)
    assert moved.reason == "moved to /new/adult: new disk"
    ledger.move("adult", "/new/adult", "again")
    assert len(ledger.grants("adult")) == 3, "nothing moved the second time"
    ledger.datasets()  # The record explains the total still.


def test_a_dataset_may_move_within_its_own_folder(ledger: SqlLedger) -> None:
    assert ledger.move("adult", "/data/adult/all", "tidied").path == "/data/adult/all"


@pytest.mark.parametrize("path", ["/data/adult", "/data/adult/part", "/data"])
def test_data_that_were_not_moved_get_no_second_budget(ledger: SqlLedger, path: str) -> None:
    """The move says that the data went away; nothing says that they did."""
    ledger.move("adult", "/new/adult", "new disk")
    ledger.create_dataset("again", 1.0, 0.0)
    with pytest.raises(ConfigError, match=r"belongs to dataset 'adult' .* are or were at /data/adult; want dataset"):
        ledger.plan(planned("c" * 64, dataset="again", path=path))
    with pytest.raises(ConfigError, match="belongs to dataset 'adult'"):
        ledger.move("retail", path, "reason")
    assert ledger.dataset("again", 1, 0).path is None


def test_a_dataset_may_move_back(ledger: SqlLedger) -> None:
    ledger.move("adult", "/new/adult", "new disk")
    ledger.move("adult", "/data/adult", "the disk failed")
    reserve(ledger, "c" * 64)
    assert ledger.verified("adult").spent == 2 * PURE.amount


def test_datasets_share_data_only_on_record(ledger: SqlLedger) -> None:
    for name, other in (("households", "adult"), ("rows", "households")):
        ledger.create_dataset(name, 1.0, 0.0, shares_with=other, reason="another unit")
        assert ledger.grants(name)[0].reason == f"created; may use the data of dataset {other!r}: another unit"
        reserve(ledger, name[0] * 64, dataset=name, path="/data/adult")
    with pytest.raises(ConfigError, match="belongs to dataset 'retail'"):
        ledger.move("rows", "/data/retail", "reason")
    with pytest.raises(ConfigError, match="with data of its own"):
        ledger.create_dataset("retail", 1.0, 0.0, shares_with="adult", reason="afterwards")


def test_a_dataset_without_data_may_begin_to_share(ledger: SqlLedger) -> None:
    """What the refusal of data that belong to another dataset advises, after the budget was made."""
    ledger.create_dataset("late", 1.0, 0.0)
    with pytest.raises(ConfigError, match="belongs to dataset 'adult'|belong to"):
        reserve(ledger, "d" * 64, dataset="late", path="/data/adult")
    with pytest.raises(ConfigError, match="epsilon 1 instead of 2"):
        ledger.create_dataset("late", 2.0, 0.0, shares_with="adult", reason="another unit")
    for _ in range(2):
        late = ledger.create_dataset("late", 1.0, 0.0, shares_with="adult", reason="another unit")
        assert late.shares_with == "adult"
    reasons = [grant.reason for grant in ledger.grants("late")]
    assert reasons == ["created", "may use the data of dataset 'adult': another unit"]
    with pytest.raises(ConfigError, match="with the data of 'adult'"):
        ledger.create_dataset("late", 1.0, 0.0, shares_with="retail", reason="another unit")
    reserve(ledger, "d" * 64, dataset="late", path="/data/adult")
    assert ledger.verified("late").spent == PURE.amount


def test_no_owner_of_data_begins_to_share(ledger: SqlLedger) -> None:
    for name in ("first", "second"):
        ledger.create_dataset(name, 1.0, 0.0)
    ledger.create_dataset("follower", 1.0, 0.0, shares_with="first", reason="another unit")
    for other in ("first", "second"):
        with pytest.raises(ConfigError, match="with data of its own"):
            ledger.create_dataset("first", 1.0, 0.0, shares_with=other, reason="another unit")
    assert ledger.dataset("first", 1, 0).shares_with is None


@pytest.mark.parametrize("path", ["/data/retail", "/data/retail/part", "/data"])
def test_the_path_of_another_dataset_is_refused(ledger: SqlLedger, path: str) -> None:
    with pytest.raises(ConfigError, match="belongs to dataset 'retail'"):
        ledger.move("adult", path, "reason")
    assert ledger.dataset("adult", 1, 0).path == "/data/adult"
    assert len(ledger.grants("adult")) == 2


def test_only_what_is_bound_moves(ledger: SqlLedger) -> None:
    ledger.create_dataset("new", 1.0, 0.0)
    with pytest.raises(ConfigError, match="its first run will bind it"):
        ledger.move("new", "/new", "reason")
    with pytest.raises(NoBudgetError):
        ledger.move("none", "/new", "reason")
