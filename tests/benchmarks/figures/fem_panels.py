"""Figures 1 and 2 of the FEM, sepFEM and DQRS paper (Vietri et al. 2020, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.case import Inputs
from tests.benchmarks.figures import datasets, published
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.panel import Panel
from tests.benchmarks.figures.points import Point
from tests.benchmarks.figures.runs import Remembered, Series, Task, defaults, lines

NAMES: Final = ("fem", "sep_fem", "dual_query", "dqrs", "gaussian")
MARGINALS: Final = (64, 128, 256, 512, 1_024)
FEW, SMALLEST_EPSILON = 64, 0.1
LARGEST_FOR_ALL: Final = 256  # Marginals; beyond, millions of cells, FEM and the Gaussian mechanism alone.


def task_of(table: Table, marginals: Marginals) -> Task:
    """All cells of marginals at delta 1 / n^2, as the paper has it."""
    workload = Workload(marginals, np.ones(len(marginals.cliques)))
    return Task(Remembered(table.statistics), workload, table.units, table.units**-2.0)


def versus_epsilon(task: Task, series: Sequence[Series]) -> Iterator[Point | str]:
    """Figure 1: one workload, growing epsilon."""
    return lines([(epsilon, task, epsilon) for epsilon in published.EPSILONS], series)


def versus_marginals(
    table: Table, workloads: Callable[[int], Marginals], counts: Sequence[int], series: Sequence[Series]
) -> Iterator[Point | str]:
    """Figure 2: epsilon 0.1, more and more marginals, until there are no more."""
    asked = {len(marginals.cliques): marginals for marginals in map(workloads, counts)}
    return lines(((count, task_of(table, asked[count]), SMALLEST_EPSILON) for count in asked), series)


def _figure_1(name: str, order: int, inputs: Inputs) -> Iterator[Point | str]:
    table = datasets.tabular(inputs)
    task = task_of(table, datasets.marginals(table, order, FEW))
    yield from versus_epsilon(task, defaults(*NAMES, runs=lambda epsilon: 2 if order == 3 and epsilon <= 0.25 else 1))
    yield from published.fem_versus_epsilon(f"{name}-{order}")


def _figure_2(name: str, order: int, inputs: Inputs) -> Iterator[Point | str]:
    table = datasets.tabular(inputs)
    everywhere = defaults("fem", "gaussian", runs=lambda marginals: 2 if marginals <= FEW else 1)
    smaller = defaults("sep_fem", "dual_query", "dqrs", runs=lambda marginals: int(marginals <= LARGEST_FOR_ALL))
    return versus_marginals(table, partial(datasets.marginals, table, order), MARGINALS, [*everywhere, *smaller])


def _panels() -> Iterator[Panel]:
    """The panels of Figure 1, then those of Figure 2."""
    for number, title, points in (
        (1, "error versus epsilon, 64 marginals", _figure_1),
        (2, "error versus number of marginals, epsilon 0.1", _figure_2),
    ):
        for name, rows in (("adult", "48,842 rows"), ("loans", "42,535 rows")):
            for order in (3, 5):
                yield Panel(
                    f"fem_{number}_{name}_{order}",
                    f"FEM, Figure {number}: {title}",
                    f"{name.capitalize()}, {order}-way",
                    f"{rows}, delta 1/n^2, all cells of random {order}-way marginals that have at most n cells each."
                    + _PUBLISHED * (number == 1),
                    "epsilon" if number == 1 else "marginals",
                    number == 2,
                    False,
                    partial(datasets.tabular_inputs, name),
                    partial(points, name, order),
                )


_PUBLISHED: Final = " The published errors are for parameters that were tuned on the private data, read off the plots."
PANELS: Final = tuple(_panels())
