"""What cases of FEM on a table share: all cells of 64 random 3-way marginals, at each epsilon of Figure 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.additive_noise import Gaussian
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.sep_fem import SepFem
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered
from tests.support.constants import with_constants

EPSILONS: Final = (0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
COMPARED: Final = (0.1, 0.25)  # Where other settings and mechanisms run beside it.
CLIQUES, ORDER = 64, 3
REPLACED, ADDED = Neighbours.REPLACE_ONE_UNIT, Neighbours.ADD_REMOVE_UNIT


@dataclass(frozen=True)
class State:
    """A table behind the local engine, counted before the clock starts, and the seed of post-processing."""

    statistics: Remembered
    workload: Workload
    units: int
    seed: int


def prepare(paths: Inputs, seed: int) -> State:
    table = datasets.tabular(paths)
    marginals = datasets.marginals(table, ORDER, CLIQUES)
    state = State(Remembered(table.statistics), Workload(marginals, np.ones(CLIQUES)), table.units, seed)
    exact_answers(state.statistics, marginals)
    return state


def released(mechanism: Mechanism, state: State, epsilon: float, neighbours: Neighbours = REPLACED) -> Release:
    """One release at delta 1 / n^2 in zCDP, n public."""
    budget = budget_of(epsilon, state.units**-2.0, Currency.ZCDP)
    unit = PrivacyUnit(neighbours, state.statistics.contribution, state.units)
    private = PrivateStatistics(
        state.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
    return mechanism.run(private, state.workload, generator=np.random.default_rng(state.seed))


def work(state: State) -> Mapping[float, Release]:
    return {epsilon: released(Fem(), state, epsilon) for epsilon in EPSILONS}


def judge(state: State, made: Mapping[float, Release]) -> Judgement:
    """Errors as fractions of n; ``max`` and ``mean`` at epsilon 1, others by epsilon."""
    queries = state.workload.queries
    exact = exact_answers(state.statistics, queries)

    def error_of(release: Release) -> dict[str, float]:
        found = errors(queries, release.answers.values, exact, state.units)
        return {"max": found.max, "mean": found.mean}

    def beside(
        mechanism: Mechanism, epsilons: Sequence[float] = COMPARED, neighbours: Neighbours = REPLACED
    ) -> dict[str, float]:
        made = {epsilon: released(mechanism, state, epsilon, neighbours) for epsilon in epsilons}
        return {f"max at {epsilon:g}": error_of(release)["max"] for epsilon, release in made.items()}

    guesses = baselines(queries, state.statistics, state.units).items()
    trivial = {name: errors(queries, guess, exact, state.units) for name, guess in guesses}
    return Judgement(
        error=error_of(made[EPSILONS[-1]])
        | {f"max at {epsilon:g}": error_of(release)["max"] for epsilon, release in made.items()},
        baselines={name: {"max": found.max, "mean": found.mean} for name, found in trivial.items()}
        | {
            "fem, add or remove": beside(Fem(), EPSILONS, ADDED),
            "fem from uniform records": beside(with_constants(Fem(), start="uniform")),
            "fem against all records": beside(with_constants(Fem(), compared="all")),
            "sep_fem": beside(SepFem()),
            "gaussian": beside(Gaussian(), EPSILONS),
        },
        facts={"answers": float(queries.size), "units": float(state.units)},
    )


def table_case(name: str, limits: Sequence[float], published: Sequence[float]) -> Case[State, Mapping[float, Release]]:
    """Targets of the mean over runs of the largest error, one for each epsilon. published: By the paper's authors."""
    params = {
        "dataset": f"tabular/{name}", "epsilon": EPSILONS, "delta": "1 / n^2", "marginals": CLIQUES, "order": ORDER,
        "cells": "all, of marginals with at most n cells", "neighbours": "replace one unit, n public",
        "fractions_of": "units", "mechanism": repr(Fem()), "published max, tuned on the data": tuple(published),
        "hdmm": "not beside it: the project has no HDMM yet",
    }  # fmt: skip
    return Case(
        params,
        (1, 2, 3),
        partial(datasets.tabular_inputs, name),
        prepare,
        work,
        judge,
        [
            Target(f"mean of the largest errors, epsilon {epsilon:g}", "<=", limit, partial(_mean_largest, epsilon))
            for epsilon, limit in zip(EPSILONS, limits, strict=True)
        ],
    )


def _mean_largest(epsilon: float, runs: Sequence[Run]) -> float:
    return float(np.mean([run.error[f"max at {epsilon:g}"] for run in runs]))
