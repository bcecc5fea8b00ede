"""A ledger and a journal in memory, for notebooks, experiments and tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.kernel.budget import Budget


@dataclass
class MemoryLedger:
    """Accounts releases against one total. Every call of ``reserve`` counts as a new release."""

    total: Budget
    spent: Fraction = Fraction(0)

    def reserve(self, budget: Budget) -> None:
        if budget.currency is not self.total.currency:
            raise ValueError(f"a budget in {budget.currency} for a ledger in {self.total.currency}; want one currency")
        remaining = self.total.amount - self.spent
        if budget.amount > remaining:
            raise BudgetExceededError("release", budget.amount, remaining, budget.currency.value)
        self.spent += budget.amount


@dataclass
class MemoryJournal:
    """Stores the answers of one release in memory, in order."""

    answers: list[tuple[str, NDArray[np.int64]]] = field(default_factory=list)

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        if index >= len(self.answers):
            return None
        stored, answer = self.answers[index]
        if stored != request:
            raise IntegrityError(f"answer {index} belongs to another request; want the request that was recorded")
        return answer.copy()

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        if index != len(self.answers):
            raise IntegrityError(f"answer {index} comes after {len(self.answers)} answers; want them in order")
        self.answers.append((request, answer.copy()))
