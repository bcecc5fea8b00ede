"""Two versions of the program may plan the same release, but only one of them can charge it."""

from __future__ import annotations

import pytest

from dpcore.errors import ChargedBeforeError
from jobs.ledger import SqlLedger
from jobs.ledger.records import PlannedRelease
from jobs.planning.identity import Identity
from tests.support.ledgers import PURE, past_the_ledger, planned

OLD, NEW, ANCIENT = "a" * 64, "b" * 64, "c" * 64


def of_version(release_id: str, version: str, *, again: bool = False) -> PlannedRelease:
    return planned(identity=Identity(release_id, "same", {ANCIENT: "0.10.0"}, version), again=again)


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 0.0)
    return ledger


def test_the_second_charge_for_the_same_release_is_refused(ledger: SqlLedger) -> None:
    """Both runs were planned before either was charged."""
    ledger.plan(of_version(OLD, "1.0"))
    ledger.plan(of_version(NEW, "1.1"))
    ledger.reserve(OLD, PURE)
    with pytest.raises(ChargedBeforeError, match="aaaaaaaaaaaa of version 1.0"):
        ledger.reserve(NEW, PURE)
    assert ledger.verified("adult").spent == PURE.amount
    ledger.reserve(OLD, PURE)
    assert [charge.release_id for charge in ledger.history("adult")] == [OLD]


def test_it_is_refused_when_it_is_planned_unless_the_operator_wants_it_again(ledger: SqlLedger) -> None:
    ledger.plan(of_version(OLD, "1.0"))
    ledger.reserve(OLD, PURE)
    with pytest.raises(ChargedBeforeError, match="of version 1.0, charged on"):
        ledger.plan(of_version(NEW, "1.1"))
    assert ledger.release(NEW) is None
    ledger.plan(of_version(NEW, "1.1", again=True))
    with pytest.raises(ChargedBeforeError):  # Nothing was charged yet, so the operator may still leave it.
        ledger.plan(of_version(NEW, "1.1"))
    ledger.reserve(NEW, PURE)
    ledger.plan(of_version(NEW, "1.1"))
    assert [charge.repeats for charge in ledger.history("adult")] == [None, OLD]
    assert ledger.verified("adult").spent == 2 * PURE.amount


def test_a_planned_release_becomes_one_that_is_wanted_again(ledger: SqlLedger) -> None:
    ledger.plan(of_version(NEW, "1.1"))
    ledger.plan(of_version(OLD, "1.0"))
    ledger.reserve(OLD, PURE)
    ledger.plan(of_version(NEW, "1.1", again=True))
    ledger.reserve(NEW, PURE)
    assert [charge.repeats for charge in ledger.history("adult")] == [None, OLD]


def test_the_latest_charge_comes_first_and_old_ids_are_known(ledger: SqlLedger, ledger_url: str) -> None:
    ledger.plan(planned(ANCIENT))
    ledger.reserve(ANCIENT, PURE)
    past_the_ledger(ledger_url, "UPDATE releases SET identity = NULL, version = NULL")
    ledger.plan(of_version(OLD, "1.0", again=True))
    ledger.reserve(OLD, PURE)
    others = ledger.charged_by_others(of_version(NEW, "1.1").identity)
    assert [(other.record.release_id, other.version) for other in others] == [(OLD, "1.0"), (ANCIENT, "0.10.0")]
    assert "fingerprint" not in repr(others)
    assert ledger.charged_by_others(Identity(NEW, "another", {}, "1.1")) == []
