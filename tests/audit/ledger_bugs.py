"""Privacy bugs of the ledger, planted in turn by ``planted_bugs``."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from jobs.ledger import releases as ledger_releases
from jobs.ledger import rows as ledger_rows

RESERVE, CHARGE_RELEASE = ledger_releases.reserve, ledger_releases._charge


def refunded_when_it_comes_back(connection: Any, release_id: str, budget: Any, now: Any, *more: Any) -> None:
    """A release that was charged before its process died gets its charge back, to be charged at the end."""
    row = ledger_rows.existing_release(connection, release_id)
    RESERVE(connection, release_id, budget, now, *more)
    if row.state != "planned":
        dataset = ledger_rows.find_dataset(connection, row.dataset)
        ledger_rows.set_dataset(connection, row.dataset, spent=str(dataset.spent - budget.amount))


def forgotten_on_retry(connection: Any, row: Any, priced: Any, now: Any) -> None:
    """The charge is appended and the sum left as it was, for the retry to add."""
    CHARGE_RELEASE(connection, row, priced, now)
    ledger_rows.set_dataset(connection, priced.dataset.name, spent=str(priced.dataset.spent))


def charged_again(connection: Any, release_id: str, budget: Any, now: Any, *more: Any) -> None:
    row = ledger_rows.existing_release(connection, release_id)
    if row.state == "planned":
        RESERVE(connection, release_id, budget, now, *more)
    else:
        dataset = ledger_rows.find_dataset(connection, row.dataset)
        ledger_rows.set_dataset(connection, row.dataset, spent=str(dataset.spent + budget.amount))


def window_of_the_moment(self: Any, now: Any) -> Any:
    """Every look at the consumer opens a new window."""
    return replace(self, window_start=now.isoformat(), spent=Fraction(0))
