"""Values in a ledger that Marquee never writes: each is an integrity error, and no refusal holds a lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dpcore.errors import IntegrityError
from jobs.ledger import SqlLedger
from jobs.ledger.rows import exact
from tests.support.ledgers import FIRST, planned

WRONG = {
    "UPDATE datasets SET total = '1e9999999'": lambda ledger: ledger.dataset("adult", 1.0, 0.0),
    "UPDATE datasets SET epsilon = 'x'": lambda ledger: ledger.verified("adult"),
    "UPDATE datasets SET currency = 'x'": lambda ledger: ledger.datasets(),
    "UPDATE datasets SET max_per_unit = 'x'": lambda ledger: ledger.datasets(),
    "UPDATE releases SET state = 'x'": lambda ledger: ledger.release(FIRST),
    "UPDATE releases SET amount = '0'": lambda ledger: ledger.release(FIRST),
    "UPDATE grants SET refresh = 'x'": lambda ledger: ledger.grants("adult"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    ledger = SqlLedger(f"sqlite:///{path}")
    ledger.create_dataset("adult", 1.0, 0.0)
    ledger.plan(planned())
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER grants_refuse_UPDATE")
    connection.close()
    return path


@pytest.mark.parametrize("statement", WRONG)
def test_a_value_that_is_never_written_is_an_integrity_error(statement: str, file: Path) -> None:
    read: Callable[[SqlLedger], object] = WRONG[statement]
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(IntegrityError, match="restore its backup") as refusal:
        read(SqlLedger(f"sqlite:///{file}"))
    # The refusal and all that it refers to are kept, and others write nevertheless.
    SqlLedger(f"sqlite:///{file}", lock_seconds=0.01).create_dataset("other", 1.0, 0.0)
    assert refusal.value.__traceback__ is not None


def test_an_amount_is_read_only_as_it_is_written() -> None:
    assert [str(exact(text)) for text in ("0", "-1/3", "7/2")] == ["0", "-1/3", "7/2"]
    for text in ("1e3", "0.5", "1/0", "", " 1", "\u0661", "9" * 5000):
        with pytest.raises(IntegrityError):
            exact(text)
