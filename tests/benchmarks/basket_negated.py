"""Triples with random negations of four sets of baskets: signed clipped answers, DQRS, and independent items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.clipping.popularity import noisy_popularity
from dpcore.mechanisms.independent import Independent
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.support.datasets import folder

# Users, items, and the declared bound on the items of a user.
DATASETS: Final[Mapping[str, tuple[int, int, int]]] = {
    "groceries": (9_835, 169, 32),
    "msweb": (32_710, 285, 35),
    "retail": (88_162, 16_470, 64),
    "mushroom": (8_124, 119, 23),
}
QUERIES, ORDER = 100_000, 3
EPSILON, DELTA, POPULARITY_SHARE = 1.0, 1e-6, Fraction(1, 20)
MECHANISMS: Final[Mapping[str, tuple[Mechanism, Currency]]] = {
    "clipped": (ClippedGaussian(), Currency.GDP),
    "dqrs": (Dqrs(), Currency.ZCDP),
    "independent": (Independent(), Currency.GDP),
}


@dataclass(frozen=True)
class State:
    """statistics, queries: Of each dataset; the queries are chosen by noisy popularity, which each release pays for."""

    statistics: Mapping[str, Statistics]
    queries: Mapping[str, Conjunctions]
    seed: int


def inputs(data: object) -> Inputs:
    return {name: folder() / "baskets" / name for name in DATASETS}


def prepare(paths: Inputs, seed: int) -> State:
    statistics, queries = {}, {}
    for name, (_, items, bound) in DATASETS.items():
        layout = BasketLayout("unit_id", "item_id", items, max_items_per_unit=bound)
        statistics[name] = EngineStatistics(LocalEngine(), open_source(str(paths[name]), layout, salt=bytes(16)))
        whole = budget_of(EPSILON, DELTA, Currency.GDP)
        private = _private(statistics[name], Budget(whole.currency, POPULARITY_SHARE * whole.amount))
        weights = noisy_popularity(private, layout.view, Fraction(1))
        queries[name] = _triples(layout, weights, seed)
    return State(statistics, queries, seed)


def _triples(layout: BasketLayout, weights: NDArray[np.float64], seed: int) -> Conjunctions:
    """As a config: if the noise left too few popular items for the count, with weights nearer to uniform ones."""

    def draw(weights: NDArray[np.float64]) -> Conjunctions:
        generator = np.random.default_rng(seed)
        return random_conjunctions(layout.view, QUERIES, ORDER, generator, weights=weights, negate=True)

    try:
        return draw(weights)
    except ValueError:
        return draw(weights / weights.sum() + 1 / weights.size)


def work(state: State) -> dict[str, NDArray[np.float64]]:
    """Released answers, in counts, by dataset and mechanism."""
    made = {}
    for dataset, queries in state.queries.items():
        for name, (mechanism, currency) in MECHANISMS.items():
            rest = Budget(currency, (1 - POPULARITY_SHARE) * budget_of(EPSILON, DELTA, currency).amount)
            private = _private(state.statistics[dataset], rest)
            release = mechanism.run(private, conjunctive(queries), generator=np.random.default_rng(state.seed))
            made[f"{dataset}/{name}"] = release.answers.values
    return made


def judge(state: State, made: Mapping[str, NDArray[np.float64]]) -> Judgement:
    """Errors as fractions of the units; ``error`` is that of clipped answers, ``facts`` have those of the others."""
    error: dict[str, float] = {}
    facts: dict[str, float] = {}
    trivial: dict[str, Figures] = {}
    for dataset, queries in state.queries.items():
        exact, units = exact_answers(state.statistics[dataset], queries), DATASETS[dataset][0]
        guesses = baselines(queries, state.statistics[dataset], units)
        for name, values in {**{key: made[f"{dataset}/{key}"] for key in MECHANISMS}, **guesses}.items():
            measured = errors(queries, values, exact, units)
            figures = {"max": measured.max, "mean": measured.mean}
            if name in guesses:
                trivial[f"{dataset}/{name}"] = figures
                continue
            stored = error if name == "clipped" else facts
            stored.update({f"{dataset}/{name}/{key}": value for key, value in figures.items()})
    for key in ("max", "mean"):
        error[key] = max(error[f"{dataset}/clipped/{key}"] for dataset in DATASETS)
    return Judgement(error=error, baselines=trivial, facts=facts)


def _private(statistics: Statistics, budget: Budget) -> PrivateStatistics:
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, statistics.contribution, None)
    return PrivateStatistics(statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal())


def _ratios(runs: list[Run], rival: str, key: str) -> list[float]:
    """For each dataset: the error of clipped answers over that of a rival, both means over the runs."""
    return [
        sum(run.error[f"{dataset}/clipped/{key}"] for run in runs)
        / sum(run.facts[f"{dataset}/{rival}/{key}"] for run in runs)
        for dataset in DATASETS
    ]


def _largest(rival: str, key: str) -> Callable[[list[Run]], float]:
    return lambda runs: max(_ratios(runs, rival, key))


def _geometric(rival: str, key: str) -> Callable[[list[Run]], float]:
    return lambda runs: math.exp(float(np.mean(np.log(_ratios(runs, rival, key)))))


CASE = Case(
    params={
        "datasets": list(DATASETS),
        "queries": QUERIES,
        "order": ORDER,
        "negations": "random",
        "epsilon": EPSILON,
        "delta": DELTA,
        "popularity_share": float(POPULARITY_SHARE),
        "neighbours": "add_remove",
        "engine": "local",
        "fractions_of": "units",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=tuple(
        Target(f"{key} error over that of {rival}, {what}", "<=", limit, ratio(rival, key))
        for key in ("max", "mean")
        for rival, what, limit, ratio in (
            ("dqrs", "worst dataset", 0.5, _largest),
            ("independent", "worst dataset", 1.0, _largest),
            ("independent", "geometric mean", 0.5, _geometric),
        )
    ),
)
