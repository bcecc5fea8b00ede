"""Default parameters of DualQuery and DQRS, compared with others on tables that played no part in their choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from dpcore.domain import BinaryView
from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_schedule import DQRS, DUAL_QUERY
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered

EPSILON, DELTA, QUERIES, ORDER = 1.0, 1e-6, 20_000, 3
TABLES: Final = ("adult_27bits", "titanic", "msnbc")
FACTORS: Final = {"half the step": (0.5, 1.0), "twice the step": (2.0, 1.0), "a quarter of the samples": (1.0, 0.25),
                  "four times the samples": (1.0, 4.0)}  # fmt: skip
Player = DualQuery | Dqrs
Errors = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Held:
    """One table with its queries."""

    statistics: Remembered
    queries: Conjunctions
    units: int


@dataclass(frozen=True)
class State:
    tables: Mapping[str, Held]
    seed: int


def inputs(data: Path) -> Inputs:
    return {name: datasets.tabular_inputs(name, data)["table"] for name in TABLES}


def prepare(paths: Inputs, seed: int) -> State:
    tables = {}
    for name in TABLES:
        table = datasets.tabular({"table": paths[name]})
        view = BinaryView.one_hot(table.domain)
        queries = random_conjunctions(view, QUERIES, ORDER, np.random.default_rng(7), negate=True)
        tables[name] = Held(Remembered(table.statistics), queries, table.units)
    return State(tables, seed)


def work(state: State) -> Errors:
    """Errors by mechanism, table and parameters."""
    found: dict[str, Mapping[str, float]] = {}
    for name, held in state.tables.items():
        for mechanism in (DualQuery(), Dqrs()):
            title = f"{type(mechanism).__name__}/{name}"
            found[f"{title}/default"] = _error(mechanism, held, state.seed)
            for factor, (of_step, of_samples) in FACTORS.items():
                found[f"{title}/{factor}"] = _error(_other(mechanism, held, of_step, of_samples), held, state.seed)
    return found


def judge(state: State, made: Errors) -> Judgement:
    """As fractions of the rows."""
    trivial: dict[str, dict[str, float]] = {}
    for name, held in state.tables.items():
        exact = exact_answers(held.statistics, held.queries)
        for guess, values in baselines(held.queries, held.statistics, held.units).items():
            one = errors(held.queries, values, exact, held.units)
            trivial.setdefault(guess, {}).update({f"{name}/max": one.max, f"{name}/mean": one.mean})
    return Judgement({f"{title}/{kind}": value for title, one in made.items() for kind, value in one.items()}, trivial)


def _private(held: Held) -> PrivateStatistics:
    budget = budget_of(EPSILON, DELTA, Currency.ZCDP)
    unit = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, held.statistics.contribution, held.units)
    return PrivateStatistics(
        held.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )


def _error(mechanism: Player, held: Held, seed: int) -> dict[str, float]:
    made = mechanism.run(_private(held), conjunctive(held.queries), generator=np.random.default_rng(seed))
    found = errors(held.queries, made.answers.values, exact_answers(held.statistics, held.queries), held.units)
    return {"max": found.max, "mean": found.mean}


def _other(mechanism: Player, held: Held, of_step: float, of_samples: float) -> Player:
    """The mechanism with multiples of its default step and samples; rounds follow from the budget."""
    family = DUAL_QUERY if isinstance(mechanism, DualQuery) else DQRS
    eta = family.general.eta * of_step
    changed = replace(mechanism, eta=eta)
    if of_samples == 1:
        return changed
    note = changed.plan(_private(held).terms, conjunctive(held.queries)).notes[0]
    samples = int(note.split(", ")[1].split()[0].replace(",", ""))
    return replace(changed, samples=max(1, round(samples * of_samples)))


def _worst_ratio(runs: Sequence[Run], kind: str) -> float:
    """The largest error of the defaults over the least of all parameters, means over runs, on the worst table."""
    ratios = []
    for player in ("DualQuery", "Dqrs"):
        for name in TABLES:
            means = {
                title: np.mean([run.error[f"{player}/{name}/{title}/{kind}"] for run in runs])
                for title in ("default", *FACTORS)
            }
            ratios.append(float(means["default"] / min(means.values())))
    return max(ratios)


CASE = Case(
    params={
        "epsilon": EPSILON, "delta": DELTA, "queries": QUERIES, "order": ORDER, "tables": list(TABLES),
        "negations": "each literal with chance 1/2", "neighbours": "replace one unit, n public",
        "fractions_of": "units", "other parameters": {name: list(factor) for name, factor in FACTORS.items()},
    },
    seeds=(1, 2),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    cold=False,
    targets=(
        Target("largest error over that of the best parameters", "<", 1.5, lambda runs: _worst_ratio(runs, "max")),
        Target("mean error over that of the best parameters", "<", 1.5, lambda runs: _worst_ratio(runs, "mean")),
    ),
)  # fmt: skip
