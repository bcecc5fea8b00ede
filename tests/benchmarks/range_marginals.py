"""AIM on prefixes and ranges of Adult and Loans, beside HDMM+PGM and MWEM+PGM under the same terms.

The workloads are 15 and 200 random 3-way range-marginals: prefixes of numeric attributes, single values of the others.
The kernel's noise has no seed, so the releases of one run differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import MarqueeError
from dpcore.evaluation import exact_answers
from dpcore.queries import Products
from dpcore.workload import linear
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.limits import CutError, limited
from tests.benchmarks.graphical.ranges import applied, range_error, range_queries
from tests.benchmarks.graphical.releases import DELTA, Settings, made, mechanism, private_of

DATASETS: Final = ("adult_fine", "loans")
COUNTS: Final = (15, 200)
ORDER: Final = 3
EPSILONS: Final = (0.1, 1.0, 10.0)
SECONDS: Final = 300.0  # Of CPU for one release.
AIM: Final = "aim"
BESIDE: Final[Mapping[str, tuple[str, Settings]]] = {
    "hdmm_pgm": ("hdmm", {"reconstruction": "graphical"}),
    "mwem_pgm": ("mwem_pgm", {}),
    "hdmm": ("hdmm", {}),
}


@dataclass(frozen=True, eq=False)
class Task:
    """The range queries of one table, each clique counted once. exact: Their answers in counts, [queries.size]."""

    table: Table
    statistics: Remembered
    queries: Products
    exact: NDArray[np.float64]

    def mean(self, answers: NDArray[np.float64]) -> float:
        """Mean absolute error of an answer, as a fraction of the rows."""
        return float(np.abs(answers - self.exact).mean()) / self.table.units

    def normalised(self, answers: NDArray[np.float64]) -> float:
        return range_error(self.queries, answers, self.exact)


@dataclass(frozen=True, eq=False)
class State:
    """The workloads by dataset and number of marginals, and the seed of post-processing."""

    tasks: Mapping[tuple[str, int], Task]
    seed: int


@dataclass(frozen=True, eq=False)
class Released:
    """answers: In counts; None where the mechanism refused the workload or was cut off."""

    answers: NDArray[np.float64] | None
    cpu_seconds: float


def inputs(data: Path) -> Inputs:
    return {name: datasets.tabular_inputs(name, data)["table"] for name in DATASETS}


def prepare(paths: Inputs, seed: int) -> State:
    tasks = {}
    for name in DATASETS:
        table = datasets.tabular({"table": paths[name]})
        statistics = Remembered(table.statistics)
        for count in COUNTS:
            tasks[name, count] = task_of(name, table, statistics, count)
    return State(tasks, seed)


def task_of(name: str, table: Table, statistics: Remembered, count: int) -> Task:
    cliques = datasets.marginals(table, ORDER, count)
    queries = range_queries(name, cliques)
    return Task(table, statistics, queries, applied(queries, exact_answers(statistics, cliques)))


def work(state: State) -> dict[str, Released]:
    return {
        cell_name(dataset, count, epsilon): release(task, AIM, {}, epsilon, state.seed)
        for (dataset, count), task in state.tasks.items()
        for epsilon in EPSILONS
    }


def release(task: Task, name: str, settings: Settings, epsilon: float, seed: int) -> Released:
    """One release of the ranges; rows are added or removed, and their number is private."""
    asked = mechanism(name, settings)
    try:
        with limited(SECONDS):
            private = private_of(task.statistics, asked, epsilon)
            found = made(asked, private, linear(task.queries), seed, rows=False)
    except (MarqueeError, CutError):
        return Released(None, 0.0)
    return Released(found.release.answers.values, found.release_seconds)


def judge(state: State, released: Mapping[str, Released]) -> Judgement:
    """error and baselines: Mean absolute error of an answer. facts: The thesis's normalised error, and CPU seconds.

    A release of AIM that was cut off counts as zeros, and its fact "cut off" is 1.
    """
    errors: dict[str, float] = {}
    beside: dict[str, dict[str, float]] = {name: {} for name in ("zeros", *BESIDE)}
    facts: dict[str, float] = {}
    for (dataset, count), task in state.tasks.items():
        for epsilon in EPSILONS:
            cell = cell_name(dataset, count, epsilon)
            zeros = np.zeros_like(task.exact)
            aim = released[cell].answers
            facts[f"{cell}: cut off"] = float(aim is None)
            errors[cell] = task.mean(zeros if aim is None else aim)
            facts[f"{cell}: normalised"] = task.normalised(zeros if aim is None else aim)
            facts[f"{cell}: CPU s"] = released[cell].cpu_seconds
            beside["zeros"][cell] = task.mean(zeros)
            for name, (asked, settings) in BESIDE.items():
                rival = release(task, asked, settings, epsilon, state.seed)
                if rival.answers is not None:
                    beside[name][cell] = task.mean(rival.answers)
                    facts[f"{cell}, {name}: normalised"] = task.normalised(rival.answers)
                    facts[f"{cell}, {name}: CPU s"] = rival.cpu_seconds
    return Judgement(errors, beside, facts)


def cell_name(dataset: str, count: int, epsilon: float) -> str:
    return f"{dataset} {count} random/{epsilon:g}"


def ratio(cell: str, name: str, runs: Sequence[Run]) -> float:
    """Mean error of AIM over that of a mechanism; 0 where the mechanism answers nothing in any run."""
    rivals = [run.baselines[name][cell] for run in runs if cell in run.baselines[name]]
    if not rivals:
        return 0.0
    return float(np.mean([run.error[cell] for run in runs]) / np.mean(rivals))


def _target(cell: str, name: str) -> Target:
    got: Callable[[Sequence[Run]], float] = partial(ratio, cell, name)
    return Target(f"{cell}: mean error over that of {name}", "<", 1.0, got)


CASE = Case(
    params={
        "datasets": DATASETS, "marginals": COUNTS, "order": ORDER, "epsilons": EPSILONS, "delta": DELTA,
        "neighbours": "add or remove one unit, n private", "cells": "of marginals with at most n cells",
        "queries": "prefixes of numeric attributes, single values of the others",
        "error": "mean absolute error of an answer over n; normalised: thesis, section 4.6.1",
        "seconds_at_most": SECONDS,
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[
        _target(cell_name(dataset, count, epsilon), name)
        for dataset in DATASETS
        for count in COUNTS
        for epsilon in EPSILONS
        for name in ("hdmm_pgm", "mwem_pgm")
    ],
    cold=False,
)  # fmt: skip
