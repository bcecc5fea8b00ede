"""Rows of a ledger with other values than the program wrote, and all that reads them."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcore.errors import IntegrityError, MarqueeError
from dpcore.kernel.budget import Budget
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger import SqlLedger
from jobs.ledger.pricing import Request
from jobs.ledger.records import Protection
from tests.reliability.fuzz_mutations import VALUES

TABLES = ("ledger_info", "datasets", "consumers", "releases", "charges", "grants", "places")
_AMOUNTS = (
    "0",
    "1/3",
    "-1/3",
    "1/0",
    "1e5",
    "1e9999999",
    "1e-9999999",
    "9" * 5000,
    " 1",
    "0.5",
    "inf",
    "1/",
    "\u0661/\u0662",
)
_REQUEST = Request(
    Budget.gdp(Fraction(1, 1000)), Protection("person", "rows", 1, Neighbours.ADD_REMOVE_UNIT), "team", (0.1, 1e-6)
)


def columns_of(ledger: Path) -> list[tuple[str, str]]:
    """Every column of every table, as (table, column)."""
    with sqlite3.connect(ledger) as connection:
        found = [(table, str(row[1])) for table in TABLES for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return found


def of_rows(columns: Sequence[tuple[str, str]], ledger: Path) -> Callable[..., bytes]:
    """A mutation of lists of [table, column, value]: other values, and values that other columns hold."""
    with sqlite3.connect(ledger) as connection:
        held = [row[0] for table, column in columns for row in connection.execute(f'SELECT "{column}" FROM {table}')]
    connection.close()
    texts = sorted({str(value) for value in held if isinstance(value, str | int | float)})

    def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
        edits = json.loads(data) if rng.random() < 0.4 else []
        for _ in range(1 + rng.randrange(2)):
            table, column = rng.choice(columns)
            edits.append([table, column, rng.choice((rng.choice(VALUES), rng.choice(_AMOUNTS), rng.choice(texts)))])
        return json.dumps(edits[-4:]).encode()

    return mutate


def apply_edits(ledger: Path, edits: Sequence[tuple[str, str, Any]]) -> None:
    """Sets columns of all rows of a table; an edit that the database itself refuses is left out."""
    if not edits:
        return
    connection = sqlite3.connect(ledger, timeout=0.1, isolation_level=None)
    for table, column, value in edits:
        with suppress(sqlite3.Error, OverflowError, UnicodeError):
            connection.execute(f'UPDATE {table} SET "{column}" = ?', (value,))
    connection.close()


def read_everything(ledger: Path, release_id: str) -> int:
    """Calls every reader of the ledger, each on its own. Returns how many refused.

    Raises: The first refusal, when all have been called.
    """
    sql = SqlLedger(f"sqlite:///{ledger}", lock_seconds=0.1)
    calls: tuple[Callable[[], object], ...] = (
        sql.ledger_id,
        sql.datasets,
        lambda: sql.dataset("people", 1.0, 1e-6).remaining,
        lambda: sql.verified("people"),
        lambda: sql.consumers("people"),
        lambda: sql.grants("people"),
        lambda: sql.history("people"),
        lambda: sql.release(release_id),
        lambda: sql.price("people", _REQUEST),
        lambda: _write(sql, release_id),
    )
    refusals: list[MarqueeError] = []
    for call in calls:
        try:
            call()
        except MarqueeError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return 0


def _write(sql: SqlLedger, release_id: str) -> None:
    """Reserves the release once more, and records another first answer, which is always refused."""
    record = sql.release(release_id)
    if record is not None:
        sql.reserve(release_id, record.budget)
        with suppress(IntegrityError):
            sql.record_answer(release_id, 0, None, "f" * 64)
