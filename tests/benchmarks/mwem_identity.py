"""MWEM and MWEM+PGM on NLTCS, all 3-way marginals: where both run, they agree (thesis, section 4.5).

From the same measurements, multiplicative weights on the dense table of 65,536 cells, iterated until they hardly move,
find the distribution of the graphical model of least squared loss. Separate releases with the same settings have the
same error, up to chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import measured_cliques
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.likelihood.losses import SquaredLoss
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.multiplicative_weights.dense import DenseModel, MultiplicativeWeights
from dpcore.evaluation import baselines, exact_answers
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.profile import MWEM_PGM
from dpcore.queries import Marginals
from tests.benchmarks.case import Case, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.release_case import Setting, State, prepare
from tests.benchmarks.graphical.releases import DELTA, made, private_of
from tests.support.constants import with_constants
from tests.support.mirror_descent import MirrorDescent

DATASET: Final = "nltcs"
EPSILONS: Final = (0.1, 1.0, 10.0)
ROUNDS: Final = 16
RELEASES: Final = 4  # Of each mechanism in a run, so that 20 decide: which marginals are selected is chance.
# As printed: both start uniform, subtract the cells, and measure with half of each round. The prior is next to none.
PGM: Final = MwemPgm(rounds=ROUNDS, profile="published")
MWEM: Final = with_constants(Mwem(rounds=ROUNDS), start="uniform", size_penalty="cells", passes=20, final_passes=1_000)
CONVERGED: Final = FitSettings(prior_scale=MWEM_PGM["published"].prior_scale, tolerance=1e-6, iterations=20_000)
LEAST_SQUARES: Final = MirrorDescent(iterations=20_000, tolerance=1e-12)
# (step, passes): long steps first, which get far along what the measurements hardly decide; ever smaller then, because
# with one step the passes end in a circle around the optimum.
STEPS: Final = ((2.0, 3_000), (0.5, 2_000), (0.1, 2_000), (0.02, 2_000))
Found = Mapping[float, Mapping[str, Sequence[Release]]]


def work(state: State) -> Found:
    """Releases by epsilon and mechanism, number of units public; what they count is counted once."""
    statistics = Remembered(state.table.statistics)

    def releases(asked: Mechanism, epsilon: float) -> list[Release]:
        privates = [private_of(statistics, asked, epsilon, units=state.table.units) for _ in range(RELEASES)]
        return [made(asked, one, state.workload, state.seed, rows=False).release for one in privates]

    return {epsilon: {"mwem_pgm": releases(PGM, epsilon), "mwem": releases(MWEM, epsilon)} for epsilon in EPSILONS}


def judge(state: State, found: Found) -> Judgement:
    """error: Definition 26 of MWEM+PGM's releases; beside it MWEM's. facts: The identity, for the first release."""
    queries, units = state.workload.queries, state.table.units
    statistics = Remembered(state.table.statistics)
    exact = exact_answers(statistics, queries)
    errors: dict[str, dict[str, float]] = {"mwem_pgm": {}, "mwem": {}}
    facts: dict[str, float] = {}
    for epsilon, releases in found.items():
        cell = f"epsilon {epsilon:g}"
        for name, made_by in releases.items():
            means = [workload_error(state.workload, one.answers.values, exact, units) for one in made_by]
            errors[name][cell] = float(np.mean(means))
        one = identity(state, releases["mwem_pgm"][0].measurements, exact)
        facts |= {f"{cell}: {name}": value for name, value in one.items()}
    pgm = errors.pop("mwem_pgm")
    for name, guess in baselines(queries, statistics, units).items():
        errors[name] = dict.fromkeys(pgm, workload_error(state.workload, guess, exact, units))
    return Judgement(pgm, errors, facts)


def identity(state: State, measured: Sequence[Measurement], exact: NDArray[np.int64]) -> dict[str, float]:
    """How far MWEM's estimate is from those of graphical models of the same measurements, each iterated to convergence.

    total_variation: To the model of least squared loss, over all cells. moved: From that model to the uniform start.
    error_ratio: Definition 26 of multiplicative weights over the model's.
    excess: Of the squared loss of multiplicative weights over the model's, relative: how far they are from the end.
    fit ...: The same for what MWEM+PGM fits, whose prior weighs residuals by what independent attributes expect.
    """
    domain, units = state.table.domain, float(state.table.units)
    weights = MultiplicativeWeights(domain, np.ones(domain.size()), units)
    for weights.step, passes in STEPS:
        weights.follow([(measured_cliques(one)[0], one.values) for one in measured], passes)
    dense = DenseModel(domain, weights.table)
    loss = SquaredLoss(domain, measured)
    models = {"": least_squares(loss, units), "fit ": fit_model(domain, measured, units, CONVERGED).model}
    found: dict[str, float] = {}
    for name, model in models.items():
        table = model.answer(Marginals(domain, (domain.names,)))
        answers = [one.answer(state.workload.queries) for one in (dense, model)]
        errors = [workload_error(state.workload, one, exact, units) for one in answers]
        found[f"{name}total_variation"] = float(np.abs(weights.table - table).sum()) / (2 * units)
        found[f"{name}moved"] = float(np.abs(table - units / domain.size()).sum()) / (2 * units)
        found[f"{name}error_ratio"] = errors[0] / errors[1]
    reached, least = (loss(one.answer(loss.queries))[0] for one in (dense, models[""]))
    return found | {"excess": reached / least - 1}


def least_squares(loss: SquaredLoss, units: float) -> GraphicalModel:
    """PrivatePGM as printed (thesis, Algorithm 2): the squared loss alone, from the uniform distribution."""
    queries = loss.queries
    oracle = Inference(JunctionTree.of(queries.domain, queries.cliques), queries.cliques)
    found = LEAST_SQUARES.estimate(oracle, loss, units, np.zeros(queries.size))
    return GraphicalModel(oracle.tree, oracle.conditionals(found.potentials), units)


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


CASE = Case(
    params={
        "dataset": f"tabular/{DATASET}", "workload": "all 3-way marginals", "epsilon": EPSILONS, "rounds": ROUNDS,
        "delta": DELTA, "neighbours": "add or remove one unit, n public", "releases_of_a_run": RELEASES,
        "settings": "mwem_pgm as published; mwem start uniform, size_penalty cells, passes 20, final_passes 1000",
        "error": "thesis, Definition 26: no factor 1/2",
    },
    seeds=(1, 2, 3, 4, 5),
    inputs=partial(datasets.tabular_inputs, DATASET),
    prepare=partial(prepare, Setting(DATASET, "mwem_pgm")),
    work=work,
    judge=judge,
    targets=[
        Target("total variation of the two tables, farthest", "<=", 0.005, partial(farthest, "total_variation")),
        Target("ratio of the two tables' errors, farthest from 1", "<=", 0.01, error_off),
        Target("mean errors of the two mechanisms, relative difference, farthest", "<=", 0.1, apart),
    ],
    cold=False,
)  # fmt: skip
