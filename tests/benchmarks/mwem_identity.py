"""MWEM and MWEM+PGM on NLTCS, all 3-way marginals: where both run they give the same (thesis, section 4.5).

From the same measurements multiplicative weights on the dense table of 65,536 cells, iterated until they stand still,
find the distribution of the graphical model of least squared loss. Releases of their own, with the same settings, have
the same error, up to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.dense import DenseModel, MultiplicativeWeights
from dpcore.estimation.pgm.fit import Fitting, fit_model
from dpcore.estimation.pgm.inference import Inference
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.estimation.pgm.linear_terms import linear_terms
from dpcore.estimation.pgm.maximum_entropy import MaximumEntropy
from dpcore.estimation.pgm.model import GraphicalModel
from dpcore.estimation.pgm.rows import Rows
from dpcore.evaluation import baselines, exact_answers
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.mwem import Mwem
from dpcore.mechanisms.mwem_pgm import MwemPgm
from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import private_of
from tests.benchmarks.graphical.workloads import all_three_way

DATASET: Final = "nltcs"
EPSILONS: Final = (0.1, 1.0, 10.0)
ROUNDS: Final = 16
RELEASES: Final = 4  # Of each mechanism in a run, so that 20 decide: which marginals are selected is chance.
# As printed: both start uniform, subtract the cells, and measure with half of each round. The prior is next to none.
STRENGTH: Final = 1e-3
PGM: Final = MwemPgm(rounds=ROUNDS, start="uniform", size_penalty="cells", strength=STRENGTH)
MWEM: Final = Mwem(rounds=ROUNDS, start="uniform", size_penalty="cells", passes=20, polish=1_000)
CONVERGED: Final = Fitting(spread=1 / STRENGTH, tolerance=1e-6, iterations=20_000)
LEAST_SQUARES: Final = MaximumEntropy(strength=1e-6, tolerance=1e-9, iterations=20_000)
# (step, passes): ever smaller, because with one step the passes end in a circle around the optimum.
STEPS: Final = ((2.0, 200), (0.5, 500), (0.1, 2_000), (0.02, 2_000))


@dataclass(frozen=True, eq=False)
class State:
    table: Table
    statistics: Remembered
    workload: Workload
    exact: NDArray[np.int64]
    seed: int


@dataclass(frozen=True, eq=False)
class Found:
    """Releases of one epsilon, number of units public."""

    pgm: Sequence[Release]
    mwem: Sequence[Release]


def inputs(data: Path) -> Inputs:
    return datasets.tabular_inputs(DATASET, data)


def prepare(paths: Inputs, seed: int) -> State:
    table = datasets.tabular(paths)
    statistics, workload = Remembered(table.statistics), all_three_way(DATASET, table)
    return State(table, statistics, workload, exact_answers(statistics, workload.queries), seed)


def work(state: State) -> dict[float, Found]:
    return {epsilon: Found(_releases(state, PGM, epsilon), _releases(state, MWEM, epsilon)) for epsilon in EPSILONS}


def judge(state: State, found: dict[float, Found]) -> Judgement:
    """error: Definition 26 of MWEM+PGM's releases; beside it MWEM's. facts: The identity, for the first release."""
    pgm, mwem, facts = dict[str, float](), dict[str, float](), dict[str, float]()
    for epsilon, releases in found.items():
        cell = f"epsilon {epsilon:g}"
        pgm[cell] = float(np.mean([_error(state, one.answers.values) for one in releases.pgm]))
        mwem[cell] = float(np.mean([_error(state, one.answers.values) for one in releases.mwem]))
        facts |= {f"{cell}: {name}": value for name, value in identity(state, releases.pgm[0].measurements).items()}
    queries = state.workload.queries
    trivial = {
        name: dict.fromkeys(pgm, _error(state, guess))
        for name, guess in baselines(queries, state.statistics, state.table.units).items()
    }
    return Judgement(pgm, {"mwem": mwem} | trivial, facts)


def identity(state: State, measured: Sequence[Measurement]) -> dict[str, float]:
    """How far MWEM's estimate is from those of graphical models of the same measurements, each iterated to convergence.

    total_variation: To the model of least squared loss, over all cells. moved: From that model to the uniform start.
    error_ratio: Definition 26 of multiplicative weights over the model's.
    fit ...: The same for what MWEM+PGM fits, whose prior weighs residuals by what independent attributes expect.
    """
    domain, units = state.table.domain, float(state.table.units)
    weights = MultiplicativeWeights(domain, np.ones(domain.size()), units)
    for weights.step, passes in STEPS:
        weights.follow([(_clique(one.queries), one.values) for one in measured], passes)
    dense = _error(state, DenseModel(domain, weights.table).answer(state.workload.queries))
    model, fit = least_squares(domain, measured, units), fit_model(domain, measured, units, CONVERGED).model
    table, fitted = (one.answer(Marginals(domain, (domain.names,))) for one in (model, fit))
    return {
        "total_variation": float(np.abs(weights.table - table).sum()) / (2 * units),
        "moved": float(np.abs(table - units / domain.size()).sum()) / (2 * units),
        "error_ratio": dense / _error(state, model.answer(state.workload.queries)),
        "fit total_variation": float(np.abs(weights.table - fitted).sum()) / (2 * units),
        "fit error_ratio": dense / _error(state, fit.answer(state.workload.queries)),
    }


def least_squares(domain: Domain, measured: Sequence[Measurement], units: float) -> GraphicalModel:
    """PrivatePGM as printed: the model of least squared loss, of those the one of largest entropy."""
    rows = Rows(domain, [term for one in measured for term in linear_terms(one)])
    tree = JunctionTree.of(domain, rows.queries.cliques)
    oracle = Inference(tree, rows.queries.cliques)
    uniform, start = np.zeros(rows.queries.size), np.zeros(rows.values.size)
    found = LEAST_SQUARES.estimate(oracle, rows, units, uniform, start)
    return GraphicalModel(tree, oracle.conditionals(found.potentials), units)


def farthest(name: str, runs: Sequence[Run]) -> float:
    return max(run.facts[f"epsilon {epsilon:g}: {name}"] for run in runs for epsilon in EPSILONS)


def error_off(runs: Sequence[Run]) -> float:
    return max(abs(run.facts[f"epsilon {epsilon:g}: error_ratio"] - 1) for run in runs for epsilon in EPSILONS)


def apart(runs: Sequence[Run]) -> float:
    """By how much the mean errors of the two mechanisms differ, relative to MWEM's; the largest over epsilon."""
    cells = list(runs[0].error)
    pgm = np.array([np.mean([run.error[cell] for run in runs]) for cell in cells])
    mwem = np.array([np.mean([run.baselines["mwem"][cell] for run in runs]) for cell in cells])
    return float(np.max(np.abs(pgm / mwem - 1)))


def _releases(state: State, asked: Mechanism, epsilon: float) -> list[Release]:
    generator = np.random.default_rng(state.seed)

    def release() -> Release:
        private = private_of(state.statistics, asked, epsilon, units=state.table.units)
        return asked.run(private, state.workload, generator=generator)

    return [release() for _ in range(RELEASES)]


def _error(state: State, answers: NDArray[np.float64]) -> float:
    return workload_error(state.workload, answers, state.exact, state.table.units)


def _clique(queries: object) -> tuple[str, ...]:
    assert isinstance(queries, Marginals)
    (clique,) = queries.cliques
    return clique


CASE = Case(
    params={
        "dataset": f"tabular/{DATASET}", "workload": "all 3-way marginals", "epsilon": EPSILONS, "rounds": ROUNDS,
        "delta": 1e-9, "neighbours": "add or remove one unit, n public", "releases_of_a_run": RELEASES,
        "settings": "start uniform, size_penalty cells; mwem_pgm strength 1e-3; mwem passes 20, polish 1000",
        "error": "thesis, Definition 26: no factor 1/2",
    },
    seeds=(1, 2, 3, 4, 5),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=[
        Target("total variation of the two tables, farthest", "<=", 0.005, partial(farthest, "total_variation")),
        Target("ratio of the two tables' errors, farthest from 1", "<=", 0.01, error_off),
        Target("mean errors of the two mechanisms, relative difference, farthest", "<=", 0.1, apart),
    ],
    cold=False,
)  # fmt: skip
