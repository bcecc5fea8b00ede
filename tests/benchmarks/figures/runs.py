"""Runs of mechanisms on one workload, whose exact answers are computed once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Statistics
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload
from jobs.config import Privacy
from jobs.planning.job import currency_of
from tests.benchmarks.figures.points import BASELINE, MEASURED, Point


class Remembered:
    """Statistics that answer each request once. SENSITIVE, as what they remember."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._answers: dict[tuple[str, str], NDArray[np.int64]] = {}

    @property
    def contribution(self) -> Contribution:
        return self._statistics.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        asked = request.queries if isinstance(request, QueryAnswers) else request
        name = (type(asked).__name__, asked.digest())
        if name not in self._answers:
            self._answers[name] = self._statistics.aggregate(request)
        return self._answers[name].copy()


@dataclass(frozen=True, eq=False)
class Task:
    """A workload on a dataset of ``units`` units, replace-one, their number public."""

    statistics: Remembered
    workload: Workload
    units: int
    delta: float

    @functools.cached_property
    def exact(self) -> NDArray[np.int64]:
        return exact_answers(self.statistics, self.workload.queries)


@dataclass(frozen=True)
class Series:
    """A line of a plot.

    mechanism: The mechanism at x.
    runs: Number of runs at x; 0 where the series ends.
    """

    name: str
    mechanism: Callable[[float], Mechanism]
    runs: Callable[[float], int]


def defaults(*names: str, runs: Callable[[float], int]) -> list[Series]:
    """Mechanisms with the settings of a config that names nothing else."""
    return [Series(name, functools.partial(_default, name), runs) for name in names]


def _default(name: str, x: float) -> Mechanism:
    return MECHANISMS[name]()


def trivial(task: Task, x: float) -> Iterator[Point]:
    """What needs no mechanism: all zeros, uniform records, the product of exact one-way marginals."""
    queries = task.workload.queries
    for name, answers in baselines(queries, task.statistics, task.units).items():
        found = errors(queries, answers, task.exact, task.units)
        yield Point(name, x, BASELINE, max=found.max, mean=found.mean)


def measured(task: Task, series: Series, x: float, epsilon: float) -> Point:
    """The errors and the CPU seconds of a series' runs at x, all threads counted.

    Raises ConfigError where the mechanism has no proof or no memory for the task.
    """
    mechanism = series.mechanism(x)
    found = [_run(task, mechanism, epsilon, seed) for seed in range(1, series.runs(x) + 1)]
    largest, means, seconds = (list(column) for column in zip(*found, strict=True))
    return Point(
        series.name,
        x,
        MEASURED,
        max=float(np.mean(largest)),
        mean=float(np.mean(means)),
        worst=max(largest),
        cpu_seconds=float(np.mean(seconds)),
        runs=len(found),
        rounds=mechanism.plan(_private(task, mechanism, epsilon).terms, task.workload).rounds,
    )


def lines(
    tasks: Sequence[tuple[float, Task, float]] | Iterator[tuple[float, Task, float]], series: Sequence[Series]
) -> Iterator[Point | str]:
    """All points of a panel, x by x, and a note for each series that is refused.

    tasks: Places on the x axis, each with its task and epsilon. Before the first, each mechanism runs once, unmeasured,
        at a tenth of the first epsilon, so that no point holds the compiler's time.
    """
    refused: set[str] = set()
    known: Task | None = None
    for place, (x, task, epsilon) in enumerate(tasks):
        if task is not known:
            yield from trivial(task, x)
        known = task
        for one in series:
            if one.name in refused or not one.runs(x):
                continue
            try:
                if place == 0:
                    _run(task, one.mechanism(x), epsilon / 10, 0)
                yield measured(task, one, x, epsilon)
            except ConfigError as error:
                refused.add(one.name)
                yield f"{one.name} is not run: {error}"


def _run(task: Task, mechanism: Mechanism, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Largest error, mean error and CPU seconds of one release."""
    _ = task.exact
    private = _private(task, mechanism, epsilon)
    start = time.process_time()
    release = mechanism.run(private, task.workload, generator=np.random.default_rng(seed))
    seconds = time.process_time() - start
    found = errors(task.workload.queries, release.answers.values, task.exact, task.units)
    return found.max, found.mean, seconds


def _private(task: Task, mechanism: Mechanism, epsilon: float) -> PrivateStatistics:
    """A fresh kernel, accounted as a release of the product would be."""
    neighbours = Neighbours.REPLACE_ONE_UNIT
    privacy = Privacy(epsilon=epsilon, delta=task.delta, neighbours=neighbours.value, units=task.units)
    budget = budget_of(epsilon, task.delta, currency_of(privacy, mechanism))
    unit = PrivacyUnit(neighbours, task.statistics.contribution, task.units)
    return PrivateStatistics(
        task.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
