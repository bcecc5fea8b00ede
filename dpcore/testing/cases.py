"""The contract of a mechanism, the cases on which it is checked, and the finished run of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

import numpy as np

from dpcore.exact_statistics import Shape, Statistics
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours
from dpcore.mechanisms.api import Mechanism, Plan, Release
from dpcore.testing.doubles import private_statistics
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.testing.tiny_data import BUDGETS, DATA, OF_BITS, Data

_UNITS_OF_DATA: Final = 40
UNITS: Final = {
    "add/remove, private number of units": (Neighbours.ADD_REMOVE_UNIT, False),
    "add/remove": (Neighbours.ADD_REMOVE_UNIT, True),
    "replace": (Neighbours.REPLACE_ONE_UNIT, True),
}
"""By name, the neighbouring relation and whether the number of units is public."""


@dataclass(frozen=True)
class MechanismContract:
    """What a mechanism accepts, and what is known about its calls before it runs.

    mechanism: The mechanism with its settings.
    data: Keys of ``dpcore.testing.tiny_data.DATA`` that the mechanism accepts. It must refuse all others.
    budgets: Budgets of ``dpcore.testing.tiny_data.BUDGETS`` that the mechanism accepts. It must refuse all others.
    spends_all: Whether the mechanism spends its whole budget, up to a rounding of shares by 2^-30.
    rounds_follow_units: Whether the number of calls depends on a number of units that is measured first.
    rounds_follow_draws: Whether the number of calls depends on earlier draws.
    scales_follow_answers: Whether noise scales depend on earlier answers.
    own_answers: Whether measured answers may stand beside a model, which then gives other ones.
    """

    mechanism: Mechanism
    data: tuple[str, ...]
    budgets: tuple[Budget, ...]
    spends_all: bool
    rounds_follow_units: bool = False
    rounds_follow_draws: bool = False
    scales_follow_answers: bool = False
    own_answers: bool = False

    def knows_its_calls(self, public: bool) -> bool:
        """Whether the calls are fixed in advance. public: Whether the number of units is public."""
        return not self.rounds_follow_draws and (public or not self.rounds_follow_units)

    def cases(self) -> list[Case]:
        """All combinations of data, budget and privacy unit that the mechanism accepts."""
        return [Case(self, *choice) for choice in product(self.data, self.budgets, UNITS)]

    def refused_cases(self) -> list[Case]:
        """All combinations that the mechanism must refuse.

        Data of bits are included only for mechanisms that accept them, or that accept no marginals at all.
        """
        kinds = [kind for kind in DATA if kind in self.data or kind not in OF_BITS or "marginals" not in self.data]
        choices = product(kinds, BUDGETS, UNITS)
        return [
            Case(self, *choice) for choice in choices if choice[0] not in self.data or choice[1] not in self.budgets
        ]


@dataclass(frozen=True)
class Case:
    """One mechanism on one kind of data, with one budget and one privacy unit.

    contract: The contract of the mechanism.
    kind: Key of ``DATA``.
    budget: The budget of the run.
    unit: Key of ``UNITS``.
    """

    contract: MechanismContract
    kind: str
    budget: Budget
    unit: str

    @property
    def data(self) -> Data:
        """The workload and its two neighbouring datasets."""
        return DATA[self.kind]

    @property
    def public(self) -> bool:
        """Whether the number of units is public."""
        return UNITS[self.unit][1]

    def __str__(self) -> str:
        return f"{type(self.contract.mechanism).__name__}-{self.kind}-{self.budget.currency.name}-{self.unit}"

    def private(
        self,
        statistics: Statistics | None = None,
        journal: MemoryJournal | None = None,
        ledger: MemoryLedger | None = None,
    ) -> PrivateStatistics:
        """The kernel over the data of the case, or over other statistics of the same shape."""
        exact = self.data.statistics if statistics is None else statistics
        bound = exact.contribution.bound if exact.contribution.shape is Shape.TABLE else 1
        return private_statistics(
            exact,
            self.budget,
            neighbours=UNITS[self.unit][0],
            units=_UNITS_OF_DATA // bound if self.public else None,
            journal=journal,
            ledger=ledger,
        )

    def run(self, private: PrivateStatistics) -> Release:
        """Runs the mechanism with fixed public randomness."""
        return self.contract.mechanism.run(private, self.data.workload, generator=np.random.default_rng(0))

    def plan(self, private: PrivateStatistics) -> Plan:
        """The plan of the run."""
        return self.contract.mechanism.plan(private.terms, self.data.workload)


@dataclass(frozen=True)
class Run:
    """A finished run, with its ledger, its journal and the progress that it reported."""

    private: PrivateStatistics
    ledger: MemoryLedger
    journal: MemoryJournal
    release: Release
    progress: list[tuple[int, int]]


def run_of(case: Case) -> Run:
    """Runs the mechanism once on a case, and records what the laws check."""
    ledger, journal, progress = MemoryLedger(case.budget), MemoryJournal(), list[tuple[int, int]]()
    private = case.private(journal=journal, ledger=ledger)
    release = case.contract.mechanism.run(
        private,
        case.data.workload,
        generator=np.random.default_rng(0),
        progress=lambda done, total: progress.append((done, total)),
    )
    return Run(private, ledger, journal, release, progress)


def pairwise_cover(cases: Sequence[Case]) -> list[Case]:
    """A subset of the cases that contains every pair of (data, budget), (data, unit) and (budget, unit) of any case.

    Method: greedily take the case with the most new pairs, and the first of several. The order is that of ``cases``.
    """
    remaining, chosen = set[tuple[str, ...]]().union(*map(_pairs, cases)), set[int]()
    while remaining:
        best = max(range(len(cases)), key=lambda number: len(remaining.intersection(_pairs(cases[number]))))
        chosen.add(best)
        remaining.difference_update(_pairs(cases[best]))
    return [case for number, case in enumerate(cases) if number in chosen]


def _pairs(case: Case) -> Iterator[tuple[str, ...]]:
    """The pairs of data, budget and unit of one case."""
    parts = (f"data {case.kind}", f"budget {case.budget.currency.name}", f"unit {case.unit}")
    return combinations(parts, 2)
