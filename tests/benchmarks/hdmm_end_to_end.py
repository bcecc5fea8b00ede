"""HDMM on Adult and NLTCS, all 3-way marginals at epsilon 1 and delta 1e-6.

The squared error of 200 releases must be what the plan predicts, and their 95 % intervals must cover.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import exact_answers
from dpcore.workload import Workload
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import mechanism, private_of
from tests.benchmarks.graphical.workloads import all_three_way

EPSILON, DELTA, RELEASES = 1.0, 1e-6, 200
DATASETS = ("nltcs", "adult")


@dataclass(frozen=True, eq=False)
class Table:
    statistics: Remembered
    workload: Workload
    exact: NDArray[np.int64]
    units: int


@dataclass
class Errors:
    """Of all releases of one table.

    squared: Sums of squared errors, one a release. predicted: That sum as standard deviations say. covered: Share of
    answers in their intervals, one a release. absolute: Of one answer, as measured and as planned. mean: Definition 26.
    """

    squared: list[float]
    predicted: float
    covered: list[float]
    absolute: tuple[float, float]
    mean: float


def inputs(data: Path) -> Inputs:
    return {name: datasets.tabular_inputs(name, data)["table"] for name in DATASETS}


def prepare(paths: Inputs, seed: int) -> dict[str, Table]:
    found = {}
    for name in DATASETS:
        table = datasets.tabular({"table": paths[name]})
        workload, statistics = all_three_way(name, table), Remembered(table.statistics)
        found[name] = Table(statistics, workload, exact_answers(statistics, workload.queries), table.units)
    return found


def work(tables: dict[str, Table]) -> dict[str, Errors]:
    return {name: _errors(table) for name, table in tables.items()}


def _errors(table: Table) -> Errors:
    asked, generator = mechanism("hdmm"), np.random.default_rng(0)
    plan = asked.plan(private_of(table.statistics, asked, EPSILON, DELTA).terms, table.workload)
    squared, covered, absolute, means, predicted = [], [], [], [], 0.0
    for _ in range(RELEASES):
        private = private_of(table.statistics, asked, EPSILON, DELTA)
        answers = asked.run(private, table.workload, generator=generator).answers
        off = answers.values - table.exact
        squared.append(float(off @ off))
        covered.append(float(np.mean((answers.lower <= table.exact) & (table.exact <= answers.upper))))
        absolute.append(float(np.abs(off).mean()))
        means.append(workload_error(table.workload, answers.values, table.exact, table.units))
        predicted = float((answers.stddev**2).sum())
    assert plan.predicted_error is not None
    return Errors(squared, predicted, covered, (float(np.mean(absolute)), plan.predicted_error), float(np.mean(means)))


def judge(tables: dict[str, Table], found: dict[str, Errors]) -> Judgement:
    facts: dict[str, float] = {}
    for name, errors in found.items():
        ratio = float(np.mean(errors.squared)) / errors.predicted
        facts |= {
            f"{name}: squared error over predicted": ratio,
            f"{name}: standard error of it": float(
                np.std(errors.squared, ddof=1) / math.sqrt(RELEASES) / errors.predicted
            ),
            f"{name}: absolute error over planned": errors.absolute[0] / errors.absolute[1],
            f"{name}: share of answers in their intervals": float(np.mean(errors.covered)),
        }
    return Judgement({f"mean, {name}": errors.mean for name, errors in found.items()}, facts=facts)


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


def _far(name: str, runs: Sequence[Run]) -> float:
    return abs(_fact(f"{name}: squared error over predicted", runs) - 1)


CASE = Case(
    params={
        "datasets": [f"tabular/{name}" for name in DATASETS], "workload": "all 3-way marginals", "mechanism": "hdmm",
        "epsilon": EPSILON, "delta": DELTA, "neighbours": "add or remove one unit, n private", "releases": RELEASES,
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[
        target
        for name in DATASETS
        for covered in [functools.partial(_fact, f"{name}: share of answers in their intervals")]
        for target in (
            Target(f"{name}: squared error off its prediction", "<=", 0.03, functools.partial(_far, name)),
            Target(f"{name}: share in intervals", ">=", 0.94, covered),
            Target(f"{name}: share in intervals", "<=", 0.96, covered),
        )
    ],
    cold=False,
)  # fmt: skip
