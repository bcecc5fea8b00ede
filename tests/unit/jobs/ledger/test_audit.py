"""A ledger whose rows were changed by other programs is detected."""

from __future__ import annotations

import pytest

from dpcore.errors import IntegrityError
from jobs.ledger import SqlLedger
from tests.support.ledgers import PURE, past_the_ledger, reserve

NO_TRIGGERS = {
    "sqlite": ["charges_refuse_UPDATE", "charges_refuse_DELETE", "grants_refuse_UPDATE"],
    "postgresql": ["charges_append_only ON charges", "grants_append_only ON grants"],
}


@pytest.fixture
def ledger(ledger_url: str) -> SqlLedger:
    made = SqlLedger(ledger_url)
    made.create_dataset("adult", 1.0, 0.0)
    made.grant_consumer("adult", "team", 0.5, 0.0)
    reserve(made, "a" * 64, consumer="team")
    reserve(made, "b" * 64)
    return made


@pytest.mark.parametrize(("statement", "says"), [
    ("UPDATE datasets SET spent = '1/3'", "the sum of its charges"),
    ("UPDATE datasets SET total = '7'", "its grants"),
    ("UPDATE datasets SET epsilon = 7", "its grants"),
    ("UPDATE consumers SET spent = '0'", "consumer 'team'"),
    ("UPDATE consumers SET total = '9'", "its grants"),
    ("UPDATE grants SET amount = '9', epsilon = 9 WHERE consumer IS NULL", "its grants"),
    ("UPDATE charges SET amount = '0' WHERE consumer IS NULL", "the sum of its charges"),
    ("UPDATE charges SET consumer = 'other'", "the sum of its charges"),
    ("DELETE FROM charges WHERE consumer IS NULL", "the sum of its charges"),
    ("UPDATE releases SET state = 'planned' WHERE consumer IS NULL", "do not match its releases"),
    ("UPDATE datasets SET total = '1/2'", "exceed its total"),
])  # fmt: skip
def test_changed_rows_are_an_integrity_error(ledger: SqlLedger, ledger_url: str, statement: str, says: str) -> None:
    ledger.datasets()
    drops = [f"DROP TRIGGER {name}" for name in NO_TRIGGERS[ledger_url.partition(":")[0]]]
    past_the_ledger(ledger_url, *drops, statement)
    for ask in (ledger.datasets, lambda: ledger.history("adult")):
        with pytest.raises(IntegrityError, match=says):
            ask()


@pytest.mark.parametrize(("statement", "consumer", "says"), [
    ("UPDATE datasets SET spent = '0'", None, "the sum of its charges"),
    ("UPDATE consumers SET spent = '0'", "team", "consumer 'team'"),
    ("UPDATE consumers SET spent = '0', window_start = '2020-01-01'", "team", "consumer 'team'"),
    ("UPDATE consumers SET window_start = '2020-01-01'", "team", "consumer 'team'"),
])  # fmt: skip
def test_a_reservation_believes_no_sum_that_its_last_charge_denies(
    ledger: SqlLedger, ledger_url: str, statement: str, consumer: str | None, says: str
) -> None:
    """No trigger guards these rows, because a role that may charge must write them."""
    past_the_ledger(ledger_url, statement)
    for ask in (lambda: reserve(ledger, "c" * 64, consumer=consumer), ledger.datasets):
        with pytest.raises(IntegrityError, match=says):
            ask()


def test_a_reservation_reads_the_last_charge_alone(ledger: SqlLedger, ledger_url: str) -> None:
    """A reservation reads only the last charge; ``show`` and ``history`` read all charges."""
    drops = [f"DROP TRIGGER {name}" for name in NO_TRIGGERS[ledger_url.partition(":")[0]]]
    past_the_ledger(ledger_url, *drops, "UPDATE charges SET amount = '9' WHERE consumer IS NOT NULL")
    reserve(ledger, "c" * 64)
    assert ledger.dataset("adult", 1, 0).spent == 3 * PURE.amount
    with pytest.raises(IntegrityError, match="the sum of its charges"):
        ledger.history("adult")
