"""Daily counts of 100 cells for a year, under one budget for all days: daily composition, tree, square root, optimum.

Each strategy is planned for running totals, for single days, for weeks (sums of seven days), and for all of these
together, and its expected error is compared with a lower bound for all strategies. Under "daily composition" the ledger
is charged for each day by itself, so that a day has 1/365 of the budget. Each is then run with real noise: 365 kernel
calls, one a day, on the data up to that day.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.measurement import Measurement
from dpcore.mechanisms.continual.series import Series
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity, of_width, prefix
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, linear
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target

DAYS, CELLS, ROWS = 365, 100, 200_000
EPSILON, DELTA, CURRENCY = 1.0, 1e-6, Currency.ZCDP
DOMAIN = Domain.of({"day": DAYS, "cell": CELLS})
MATRICES = {"running totals": prefix(DAYS), "days": identity(DAYS), "weeks": of_width(DAYS, DAYS, 7)}
TOGETHER = "all of them"
STRATEGIES = ("daily", "tree", "square_root", "best")
COMPOSED = "daily composition"
RUN = "running totals"


@dataclass(frozen=True, eq=False)
class Line:
    """predicted: Expected RMSE. measured: That of the run. bound: No strategy has a smaller RMSE."""

    predicted: float
    bound: float
    measured: float = math.nan


Made = dict[tuple[str, str], Line]  # By workload and strategy.


def workload_of(name: str) -> Workload:
    """Each query about the days, for each of the cells."""
    matrices = list(MATRICES.values()) if name == TOGETHER else [MATRICES[name]]
    terms = tuple(Product(("day", "cell"), (matrix, identity(CELLS))) for matrix in matrices)
    return linear(Products(DOMAIN, terms))


def budget() -> Budget:
    return budget_of(EPSILON, DELTA, CURRENCY)


def inputs(data: Path) -> Inputs:
    return {}


def prepare(paths: Inputs, seed: int) -> NDArray[np.int64]:
    """Rows of units that occur once each, some days and cells more often than others."""
    generator = np.random.default_rng(seed)
    day = (generator.beta(1.5, 1.2, ROWS) * DAYS).astype(np.int64)
    return np.column_stack([day, np.minimum(generator.geometric(0.05, ROWS) - 1, CELLS - 1)])


def work(codes: NDArray[np.int64]) -> Made:
    terms = PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1)), budget())
    made: Made = {}
    for name in (*MATRICES, TOGETHER):
        workload = workload_of(name)
        answers = len(MATRICES[name]) if name in MATRICES else sum(map(len, MATRICES.values()))
        sigma = math.sqrt(1 / (2 * budget().amount))
        for strategy in STRATEGIES:
            series = Series.of(terms, workload, "day", strategy)
            scale = terms.measure_scale(series.measured, Fraction(1)) / series.plan.strategy.denominator
            squares = float((series.plan.reconstruction**2).sum())
            bound = sigma * math.sqrt(series.plan.bound / (CELLS * answers))
            measured = measured_rmse(series, codes)
            made[name, strategy] = Line(scale * math.sqrt(squares / answers), bound, measured)
        alone = made[name, "daily"]
        made[name, COMPOSED] = Line(alone.predicted * math.sqrt(DAYS), alone.bound)
    return made


def measured_rmse(series: Series, codes: NDArray[np.int64]) -> float:
    """One kernel call a day on the data up to that day, and the error of all answers."""
    exact = _exact(codes)
    (term,) = series.measured.terms
    values = []
    for step in range(DAYS):
        rows = series.plan.strategy.rows_of(step)
        private = private_statistics(_Tables(exact, step), budget())
        part = private.measure_rows(series.measured, "day", step, rows, Fraction(1))
        values.append(part.values)
    measurement = Measurement(series.measured, np.concatenate(values), part.noise, part.scale)
    answers = series.answers(measurement, None).values
    truth = exact_answers(_Tables(exact, DAYS - 1), series.queries)
    assert len(term.matrices) == 2
    return float(np.sqrt(np.mean((answers - truth) ** 2)))


@dataclass(frozen=True, eq=False)
class _Tables:
    """The statistics of the rows up to a day, from the table of all rows. day: From 0."""

    table: NDArray[np.int64]
    day: int

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, 1)

    def aggregate(self, request: object) -> NDArray[np.int64]:
        so_far = self.table.copy()
        so_far[self.day + 1 :] = 0
        return so_far.ravel()


def _exact(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return TinyTable(DOMAIN, codes)._table(("day", "cell")).reshape(DAYS, CELLS)


def judge(codes: NDArray[np.int64], made: Made) -> Judgement:
    show(made)
    facts: dict[str, float] = {}
    for (name, strategy), line in made.items():
        facts[f"{name}: {strategy}: predicted"] = line.predicted
        facts[f"{name}: {strategy}: over the bound"] = line.predicted / line.bound - 1
        if not math.isnan(line.measured):
            facts[f"{name}: {strategy}: measured"] = line.measured
    best = {name: made[name, "best"] for name in (*MATRICES, TOGETHER)}
    ratios = [line.measured / line.predicted for line in made.values() if not math.isnan(line.measured)]
    facts["largest excess of the best"] = max(line.predicted / line.bound - 1 for line in best.values())
    facts["daily composition over the best, running totals"] = made[RUN, COMPOSED].predicted / best[RUN].predicted
    facts["measured over predicted, from 1"] = max(abs(ratio - 1) for ratio in ratios)
    return Judgement(
        {"RMSE of running totals": best[RUN].measured},
        {COMPOSED: {"RMSE of running totals": made[RUN, COMPOSED].predicted}},
        facts,
    )


def show(made: Made) -> None:
    columns = (COMPOSED, *STRATEGIES)
    print(f"RMSE of an answer in counts: predicted (measured), {DAYS} days, {CELLS} cells, ({EPSILON:g}, {DELTA:g})")
    print(f"{'':>16}" + "".join(f"{column:>20}" for column in columns) + f"{'bound':>10}")
    for name in (*MATRICES, TOGETHER):
        figures = []
        for column in columns:
            line = made[name, column]
            run = "" if math.isnan(line.measured) else f" ({line.measured:.2f})"
            figures.append(f"{f'{line.predicted:.2f}{run}':>20}")
        print(f"{name:>16}" + "".join(figures) + f"{made[name, 'best'].bound:>10.2f}")


def _fact(name: str, runs: Sequence[Run]) -> float:
    return max(run.facts[name] for run in runs)


CASE = Case(
    params={
        "days": DAYS, "cells": CELLS, "rows": ROWS, "epsilon": EPSILON, "delta": DELTA, "accounting": "zcdp",
        "neighbours": "add or remove one unit of one row", "figures": "RMSE of an answer in counts",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "excess of the best over the bound, worst",
            "<=", 0.02, functools.partial(_fact, "largest excess of the best"),
        ),
        Target(
            "measured over predicted, from 1",
            "<=", 0.25, functools.partial(_fact, "measured over predicted, from 1"),
        ),
    ),
    cold=False,
)  # fmt: skip
