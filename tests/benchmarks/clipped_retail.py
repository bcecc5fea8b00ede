"""Clipped answers and DualQuery on supermarket baskets, for the same 100,000 triples, drawn by noisy popularity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

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
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Target
from tests.support.datasets import folder

UNITS, ITEMS, QUERIES, ORDER = 88_162, 16_470, 100_000, 3
EPSILON, DELTA, POPULARITY_SHARE = 1.0, 1e-6, Fraction(1, 20)
MECHANISMS: Mapping[str, tuple[Mechanism, Currency]] = {
    "clipped": (ClippedGaussian(), Currency.GDP),
    "dual_query": (DualQuery(), Currency.ZCDP),
}
LAYOUT = BasketLayout("unit_id", "item_id", ITEMS, max_items_per_unit=64)  # As in the config of this dataset.


@dataclass(frozen=True)
class State:
    """queries: Chosen by noisy popularity, which a run of either mechanism pays with its share."""

    statistics: Statistics
    queries: Conjunctions
    seed: int


def inputs(data: object) -> Inputs:
    return {"dataset": folder() / "baskets/retail"}


def prepare(paths: Inputs, seed: int) -> State:
    statistics = EngineStatistics(LocalEngine(), open_source(str(paths["dataset"]), LAYOUT, salt=bytes(16)))
    whole = budget_of(EPSILON, DELTA, Currency.ZCDP)
    private = _private(statistics, Budget(whole.currency, POPULARITY_SHARE * whole.amount), "replace")
    weights = noisy_popularity(private, LAYOUT.view, Fraction(1))
    queries = random_conjunctions(LAYOUT.view, QUERIES, ORDER, np.random.default_rng(seed), weights=weights)
    return State(statistics, queries, seed)


def work(state: State) -> dict[str, NDArray[np.float64]]:
    """Released answers, in counts, by mechanism and neighbours."""
    made = {}
    for name, (mechanism, currency) in MECHANISMS.items():
        whole = budget_of(EPSILON, DELTA, currency)
        rest = Budget(currency, (1 - POPULARITY_SHARE) * whole.amount)
        for relation in ("replace", "add_remove"):
            private = _private(state.statistics, rest, relation)
            generator = np.random.default_rng(state.seed)
            release = mechanism.run(private, conjunctive(state.queries), generator=generator)
            made[f"{name}/{relation}"] = release.answers.values
    return made


def judge(state: State, made: Mapping[str, NDArray[np.float64]]) -> Judgement:
    """Errors as fractions of the units; ``error`` is that of clipped answers, ``facts`` have DualQuery's."""
    exact = exact_answers(state.statistics, state.queries)

    def figures(values: NDArray[np.float64]) -> Figures:
        found = errors(state.queries, values, exact, UNITS)
        return {"max": found.max, "mean": found.mean}

    by_name = {f"{name}/{key}": value for name, values in made.items() for key, value in figures(values).items()}
    return Judgement(
        error={**figures(made["clipped/replace"]), **{k: v for k, v in by_name.items() if k.startswith("clipped")}},
        baselines={name: figures(guess) for name, guess in baselines(state.queries, state.statistics, UNITS).items()},
        facts={key: value for key, value in by_name.items() if not key.startswith("clipped")},
    )


def _private(statistics: Statistics, budget: Budget, relation: str) -> PrivateStatistics:
    replaced = relation == "replace"
    neighbours = Neighbours.REPLACE_ONE_UNIT if replaced else Neighbours.ADD_REMOVE_UNIT
    unit = PrivacyUnit(neighbours, statistics.contribution, UNITS if replaced else None)
    return PrivateStatistics(statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal())


CASE = Case(
    params={
        "units": UNITS,
        "queries": QUERIES,
        "order": ORDER,
        "epsilon": EPSILON,
        "delta": DELTA,
        "popularity_share": float(POPULARITY_SHARE),
        "max_items_per_unit": 64,
        "neighbours": ["replace", "add_remove"],
        "engine": "local",
        "fractions_of": "units",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "largest error over DualQuery's",
            "<=",
            0.5,
            lambda runs: max(run.error["max"] / run.facts["dual_query/replace/max"] for run in runs),
        ),
        Target(
            "largest error over that of the best trivial answers",
            "<=",
            0.5,
            lambda runs: max(run.error["max"] / min(base["max"] for base in run.baselines.values()) for run in runs),
        ),
        Target(
            "mean error over that of all zeros",
            "<",
            1.0,
            lambda runs: max(run.error["mean"] / run.baselines["zeros"]["mean"] for run in runs),
        ),
    ),
)
