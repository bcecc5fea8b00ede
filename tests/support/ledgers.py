"""Ledgers for tests: planned releases, a clock that a test sets, and rows changed past the ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import create_engine, text

from dpcore.kernel.budget import Budget
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger import SqlLedger
from jobs.ledger.records import PlannedRelease, Protection
from jobs.planning.identity import Identity
from jobs.version import VERSION
from pipelines.source.content import FileContent, RowGroupContent

PURE = Budget.pure(Fraction(1, 3))
FIRST = "a" * 64
PERSONS = Protection("person", "rows", 1, Neighbours.ADD_REMOVE_UNIT)


def planned(release_id: str = FIRST, **changes: object) -> PlannedRelease:
    values: dict[str, object] = {
        "dataset": "adult",
        "budget": PURE,
        "path": f"/data/{changes.get('dataset', 'adult')}",
        "fingerprint": "f",
        "state_folder": "/out/.marquee/a",
        "protection": PERSONS,
    }
    identity = Identity(release_id, release_id, {}, VERSION)
    return PlannedRelease(**{"identity": identity, **values, **changes})  # type: ignore[arg-type]


def reserve(ledger: SqlLedger, release_id: str = FIRST, budget: Budget = PURE, **changes: object) -> None:
    ledger.plan(planned(release_id, budget=budget, **changes))
    ledger.reserve(release_id, budget)


def file_content(name: str, *row_groups: str, rows: int = 1000) -> FileContent:
    """A file with invented digests, one of its footer and one of each row group, among which its rows are divided."""
    groups = row_groups or (f"{name} 0",)
    known = tuple(RowGroupContent(rows // len(groups), group.encode()) for group in groups)
    return FileContent(f"/anywhere/{name}", rows, f"footer {name}".encode(), known)


def copied_elsewhere(content: FileContent) -> FileContent:
    return replace(content, file="/elsewhere/copy")


@dataclass
class Clock:
    """Says what it is set to."""

    now: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def set(self, *date: int) -> None:
        self.now = datetime(*date, tzinfo=UTC)  # type: ignore[arg-type,misc]


def past_the_ledger(url: str, *statements: str) -> list[Any]:
    """Runs statements straight on the database, in one transaction; returns the rows of the last."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            for statement in statements:
                result = connection.execute(text(statement))
            return list(result) if result.returns_rows else []
    finally:
        engine.dispose()
