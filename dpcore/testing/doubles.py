"""``private_statistics`` for tests, and test doubles of statistics, ledgers and journals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import BudgetExceededError
from dpcore.exact_statistics import Contribution, Request, Statistics
from dpcore.kernel.budget import Budget
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.testing.memory import MemoryJournal, MemoryLedger

ADD_REMOVE = Neighbours.ADD_REMOVE_UNIT
REPLACE = Neighbours.REPLACE_ONE_UNIT


def private_statistics(
    statistics: Statistics,
    budget: Budget,
    *,
    neighbours: Neighbours = ADD_REMOVE,
    units: int | None = None,
    ledger: Ledger | None = None,
    journal: Journal | None = None,
) -> PrivateStatistics:
    """The kernel over ``statistics``; by default with a ledger and a journal in memory."""
    return PrivateStatistics(
        statistics,
        unit=PrivacyUnit(neighbours, statistics.contribution, units),
        budget=budget,
        ledger=MemoryLedger(budget) if ledger is None else ledger,
        journal=MemoryJournal() if journal is None else journal,
    )


@dataclass(frozen=True)
class NoStatistics:
    """Statistics that fail on every request, for code that must not read the data."""

    contribution: Contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        raise AssertionError("the data were touched")


@dataclass
class WatchedStatistics:
    """Statistics that record every request before they answer it."""

    inner: Statistics
    requests: list[Request] = field(default_factory=list)

    @property
    def contribution(self) -> Contribution:
        return self.inner.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        self.requests.append(request)
        return self.inner.aggregate(request)


@dataclass(frozen=True)
class RefusingLedger:
    """A ledger that refuses every reservation, because nothing of its budget is left."""

    def reserve(self, budget: Budget) -> None:
        raise BudgetExceededError("release", budget.amount, budget.amount * 0, budget.currency.value)


@dataclass
class WatchedJournal:
    """A journal in memory that records the order of its calls."""

    inner: MemoryJournal = field(default_factory=MemoryJournal)
    calls: list[str] = field(default_factory=list)

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        self.calls.append(f"recall {index}")
        return self.inner.recall(index, request)

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        self.calls.append(f"record {index}")
        self.inner.record(index, request, answer)
