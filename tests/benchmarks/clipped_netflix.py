"""Clipped answers of 3-way conjunctions over generated Netflix, with films drawn uniformly or by their popularity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import open_source
from tests.benchmarks import netflix
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target, mean_cpu_seconds

EPSILON, DELTAS, ORDER, QUERY_SEED = 1.0, (1e-3, 1e-6), 3, 7
COUNTS = {"uniform": 500_000, "popularity": 200_000}
RELATIONS = {"replace": Neighbours.REPLACE_ONE_UNIT, "add_remove": Neighbours.ADD_REMOVE_UNIT}


@dataclass(frozen=True)
class State:
    """seed: Of the post-processing. workloads: By name."""

    statistics: Statistics
    workloads: Mapping[str, Conjunctions]
    seed: int


def prepare(paths: Inputs, seed: int) -> State:
    source = open_source(str(paths["baskets"]), netflix.LAYOUT, salt=bytes(16))
    weights = {"uniform": None, "popularity": netflix.public_popularity(paths)}
    workloads = {
        name: random_conjunctions(
            netflix.LAYOUT.view, count, ORDER, np.random.default_rng(QUERY_SEED), weights=weights[name]
        )
        for name, count in COUNTS.items()
    }
    return State(EngineStatistics(LocalEngine(), source), workloads, seed)


def work(state: State) -> dict[str, NDArray[np.float64]]:
    """Released answers, in counts, by workload, delta and neighbours; units are private under add/remove."""
    return {
        _name(workload, delta, relation): _released(state, queries, delta, neighbours)
        for workload, queries in state.workloads.items()
        for delta in DELTAS
        for relation, neighbours in RELATIONS.items()
    }


def judge(state: State, made: Mapping[str, NDArray[np.float64]]) -> Judgement:
    """Errors and baselines as fractions of the users."""
    error: dict[str, float] = {}
    trivial: dict[str, dict[str, float]] = {}
    for workload, queries in state.workloads.items():
        exact = exact_answers(state.statistics, queries)
        for name, values in made.items():
            if name.startswith(workload):
                found = errors(queries, values, exact, netflix.USERS)
                error |= {f"{name}/max": found.max, f"{name}/mean": found.mean}
        for name, guess in baselines(queries, state.statistics, netflix.USERS).items():
            found = errors(queries, guess, exact, netflix.USERS)
            trivial.setdefault(name, {}).update({f"{workload}/max": found.max, f"{workload}/mean": found.mean})
    return Judgement(error, trivial, {f"{name}_queries": float(count) for name, count in COUNTS.items()})


def _released(state: State, queries: Conjunctions, delta: float, neighbours: Neighbours) -> NDArray[np.float64]:
    budget = budget_of(EPSILON, delta, Currency.GDP)
    units = netflix.USERS if neighbours is Neighbours.REPLACE_ONE_UNIT else None
    unit = PrivacyUnit(neighbours, state.statistics.contribution, units)
    private = PrivateStatistics(
        state.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
    generator = np.random.default_rng(state.seed)
    return ClippedGaussian().run(private, conjunctive(queries), generator=generator).answers.values


def _name(workload: str, delta: float, relation: str) -> str:
    return f"{workload}/{delta:g}/{relation}"


def _worst(runs: Sequence[Run], name: str) -> float:
    return max(run.error[f"{name}/max"] for run in runs)


def _at_most(workload: str, delta: float, limit: float) -> Target:
    name = _name(workload, delta, "replace")
    return Target(f"largest error, {workload}, delta {delta:g}", "<=", limit, lambda runs: _worst(runs, name))


def _of_zeros(workload: str, part: int) -> Target:
    def got(runs: Sequence[Run]) -> float:
        return _worst(runs, _name(workload, 1e-6, "replace")) / runs[0].baselines["zeros"][f"{workload}/max"]

    return Target(f"largest error over that of all zeros, {workload}, delta 1e-06", "<", 1 / part, got)


CASE = Case(
    params={
        **netflix.PARAMS,
        **{f"{name}_queries": count for name, count in COUNTS.items()},
        "order": ORDER,
        "query_seed": QUERY_SEED,
        "epsilon": EPSILON,
        "deltas": list(DELTAS),
        "neighbours": list(RELATIONS),
        "engine": "local",
        "fractions_of": "units",
    },
    seeds=(1, 2, 3),
    inputs=netflix.inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    cold=False,
    targets=(
        _at_most("uniform", 1e-3, 0.002),
        _at_most("uniform", 1e-6, 0.0027),
        _at_most("popularity", 1e-3, 0.008),
        _at_most("popularity", 1e-6, 0.011),
        _of_zeros("uniform", 25),
        _of_zeros("popularity", 15),
        Target("CPU seconds of eight releases", "<", 300, mean_cpu_seconds),
    ),
)
