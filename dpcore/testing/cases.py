"""What a mechanism is checked on: its contract, the cases that follow from it, and one finished run of a case."""

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
"""The privacy units: which datasets are neighbours, and whether the number of units is public."""


@dataclass(frozen=True)
class MechanismContract:
    """What a mechanism accepts, and what is known about its calls before it runs.

    mechanism: The mechanism with its settings.
    data: Keys of ``dpcore.testing.tiny_data.DATA`` that it accepts; all others it must refuse.
    budgets: Those of ``dpcore.testing.tiny_data.BUDGETS`` that it accepts; all others it must refuse.
    spends_all: Whether it uses its whole budget, up to the rounding of shares (2^-30).
    rounds_follow_units: Whether a number of units that is measured first decides how many calls follow.
    rounds_follow_draws: Whether draws decide how many calls follow.
    scales_follow_answers: Whether earlier answers decide the noise scale of later ones.
    """

    mechanism: Mechanism
    data: tuple[str, ...]
    budgets: tuple[Budget, ...]
    spends_all: bool
    rounds_follow_units: bool = False
    rounds_follow_draws: bool = False
    scales_follow_answers: bool = False

    def knows_its_calls(self, public: bool) -> bool:
        """Whether the calls are fixed in advance, where the number of units is ``public`` or not."""
        return not self.rounds_follow_draws and (public or not self.rounds_follow_units)

    def cases(self) -> list[Case]:
        """Every kind of data, currency and privacy unit that the mechanism accepts."""
        return [Case(self, *choice) for choice in product(self.data, self.budgets, UNITS)]

    def refused_cases(self) -> list[Case]:
        """Those that it must refuse. Data of bits are asked of mechanisms that need them, or take no marginals."""
        kinds = [kind for kind in DATA if kind in self.data or kind not in OF_BITS or "marginals" not in self.data]
        choices = product(kinds, BUDGETS, UNITS)
        return [
            Case(self, *choice) for choice in choices if choice[0] not in self.data or choice[1] not in self.budgets
        ]


@dataclass(frozen=True)
class Case:
    """One mechanism on one kind of data, under one budget and privacy unit."""

    contract: MechanismContract
    kind: str
    budget: Budget
    unit: str

    @property
    def data(self) -> Data:
        """The workload with its two neighbouring datasets."""
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
        """The kernel over the data, or over other statistics of the same shape."""
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
        """A run whose public randomness is always the same."""
        return self.contract.mechanism.run(private, self.data.workload, generator=np.random.default_rng(0))

    def plan(self, private: PrivateStatistics) -> Plan:
        """The plan of a run, from public facts alone."""
        return self.contract.mechanism.plan(private.terms, self.data.workload)


@dataclass(frozen=True)
class Run:
    """A finished run, with what it wrote and the progress that it reported."""

    private: PrivateStatistics
    ledger: MemoryLedger
    journal: MemoryJournal
    release: Release
    progress: list[tuple[int, int]]


def run_of(case: Case) -> Run:
    """Runs the mechanism once and keeps what the laws look at."""
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
    """Cases, in their order, in which every pair of data and budget, data and unit, and budget and unit occurs.

    Greedy: the case with most new pairs comes next, the first of several. Every pair occurs that any case has.
    """
    remaining, chosen = set[tuple[str, ...]]().union(*map(_pairs, cases)), set[int]()
    while remaining:
        best = max(range(len(cases)), key=lambda number: len(remaining.intersection(_pairs(cases[number]))))
        chosen.add(best)
        remaining.difference_update(_pairs(cases[best]))
    return [case for number, case in enumerate(cases) if number in chosen]


def _pairs(case: Case) -> Iterator[tuple[str, ...]]:
    parts = (f"data {case.kind}", f"budget {case.budget.currency.name}", f"unit {case.unit}")
    return combinations(parts, 2)
