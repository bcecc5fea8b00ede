"""One measured value of a panel, and how releases are repeated for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcore.kernel.budget import Budget
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload
from tests.benchmarks.mwem.histograms import Histogram

EXPECTED = 0  # Runs of a line whose mean is known without any.


@dataclass(frozen=True)
class Line:
    """mean, spread: Of the runs, the latter their standard deviation; exact, with spread 0, where there are none."""

    panel: str
    epsilon: float
    series: str
    measure: str
    mean: float
    spread: float
    runs: int

    @property
    def key(self) -> str:
        return f"{self.panel} | epsilon {self.epsilon:g} | {self.series} | {self.measure}"


def line(panel: str, epsilon: float, series: str, measure: str, found: Sequence[float]) -> Line:
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else 0.0
    return Line(panel, epsilon, series, measure, float(np.mean(found)), spread, len(found))


def expected(panel: str, epsilon: float, series: str, measure: str, value: float) -> Line:
    return Line(panel, epsilon, series, measure, value, 0.0, EXPECTED)


def release(data: Histogram, mechanism: Mechanism, workload: Workload, epsilon: float, seed: int) -> Release:
    """Under pure DP, rows added or removed, their number public, as the paper's algorithm knows it."""
    budget = Budget.pure(Fraction(str(epsilon)))
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, data.contribution, data.units)
    private = PrivateStatistics(
        data.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
    return mechanism.run(private, workload, generator=np.random.default_rng(seed))


def repeated(runs: int, one: Callable[[int], Sequence[float]]) -> list[tuple[float, ...]]:
    """What ``one`` finds for each seed, by figure."""
    return list(zip(*(one(seed) for seed in range(1, runs + 1)), strict=True))
