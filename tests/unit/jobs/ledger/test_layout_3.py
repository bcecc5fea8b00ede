"""A ledger of layout 3 gets the tables of series, and keeps everything that it holds."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sqlalchemy import exc

from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from jobs.planning.series import SeriesFacts
from tests.support.ledgers import FIRST, file_content, past_the_ledger, planned, reserve

SERIES = SeriesFacts("5" * 64, 1, 3, "day", "6" * 64)


def write_layout_3(url: str) -> None:
    """Layout 3 is the present one without the tables of series and of thresholds."""
    ledger = SqlLedger(url)
    ledger.create_dataset("adult", 1.0, 0.0)
    reserve(ledger, contents=(file_content("a"),))
    tables = ("thresholds", "series_history", "series_steps", "series")
    past_the_ledger(url, *(f"DROP TABLE {name}" for name in tables), "UPDATE ledger_info SET version = 3")


def test_layout_3_keeps_everything_and_takes_series(ledger_url: str) -> None:
    write_layout_3(ledger_url)
    kept = "SELECT ledger_id, content_key FROM ledger_info"
    before = past_the_ledger(ledger_url, kept)
    ledger = SqlLedger(ledger_url)
    assert [charge.amount for charge in ledger.history("adult")] == [Fraction(1, 3)]
    assert past_the_ledger(ledger_url, kept) == before
    assert past_the_ledger(ledger_url, "SELECT version FROM ledger_info") == [(6,)]
    assert past_the_ledger(ledger_url, "SELECT count(*) FROM contents") != [(0,)]
    ledger.plan(planned("b" * 64, series=SERIES))
    ledger.reserve("b" * 64, Budget.pure(Fraction(1, 3)), SERIES)
    assert len(ledger.history("adult")) == 2
    for table in ("series", "series_steps"):
        with pytest.raises(exc.DBAPIError, match="append-only"):
            past_the_ledger(ledger_url, f"DELETE FROM {table}")
    assert ledger.release(FIRST) is not None
