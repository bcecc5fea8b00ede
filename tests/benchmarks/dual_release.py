"""What cases of DualQuery and DQRS on a table share: 500,000 random 3-way conjunctions and default parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dpcore.domain import BinaryView
from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.queries import Conjunctions, UnitCount
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import conjunctive
from jobs.planning.job import load_job
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import TableLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Target
from tests.benchmarks.configured import inputs_of
from tests.benchmarks.generated import kept
from tests.support.acceptance import CONFIGS
from tests.support.datasets import folder

EPSILON, DELTA = 1.0, 1e-3
QUERIES, ORDER, QUERY_SEED = 500_000, 3, 7
PARAMS = {
    "epsilon": EPSILON, "delta": DELTA, "queries": QUERIES, "order": ORDER, "negations": "each literal with chance 1/2",
    "neighbours": "replace one unit, n public; facts: add or remove one unit, n public", "fractions_of": "units",
}  # fmt: skip
_TRAINING_ROWS = 32_561


@dataclass(frozen=True)
class State:
    """A table behind the local engine, its queries, and the seed of a run's post-processing."""

    statistics: Statistics
    queries: Conjunctions
    units: int
    seed: int


kdd99 = inputs_of("kdd99.yaml", "kdd99.schema.yaml", "raw/kdd99")


def adult181(data: Path) -> Inputs:
    """The rows of the training part without an unknown value."""

    def make(rows: Path) -> None:
        table = ds.dataset(folder() / "raw/adult", format="parquet", exclude_invalid_files=True).to_table()
        table = table.filter(pc.less(table["person_id"], _TRAINING_ROWS)).drop_null()
        rows.mkdir()
        pq.write_table(table, rows / "part-0.parquet")

    return {
        "config": CONFIGS / "adult181.yaml",
        "schema": CONFIGS / "adult181.schema.yaml",
        "dataset": kept(data, "adult-complete", make),
    }


def prepare(paths: Inputs, seed: int, queries: int = QUERIES) -> State:
    layout = load_job(paths["config"]).layout
    assert isinstance(layout, TableLayout)
    statistics = EngineStatistics(LocalEngine(), open_source(str(paths["dataset"]), layout, salt=bytes(16)))
    view = BinaryView.one_hot(layout.schema.domain)
    asked = random_conjunctions(view, queries, ORDER, np.random.default_rng(QUERY_SEED), negate=True)
    return State(statistics, asked, int(exact_answers(statistics, UnitCount())[0]), seed)


def private_of(state: State, neighbours: Neighbours = Neighbours.REPLACE_ONE_UNIT) -> PrivateStatistics:
    """The kernel with (EPSILON, DELTA) in zCDP and a public number of units."""
    unit = PrivacyUnit(neighbours, state.statistics.contribution, state.units)
    budget = budget_of(EPSILON, DELTA, Currency.ZCDP)
    return PrivateStatistics(
        state.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )


def released(mechanism: Mechanism, private: PrivateStatistics, state: State) -> Release:
    return mechanism.run(private, conjunctive(state.queries), generator=np.random.default_rng(state.seed))


def error_of(state: State, made: Release) -> dict[str, float]:
    found = errors(state.queries, made.answers.values, exact_answers(state.statistics, state.queries), state.units)
    return {"max": found.max, "mean": found.mean}


def table_case(
    mechanism: Mechanism, inputs: Callable[[Path], Inputs], largest: float, mean: float | None, added: float | None
) -> Case[State, Release]:
    """Five runs; the targets are means over them.

    largest, mean: Of the maximum and of the mean error. added: Of the maximum where a unit is added or removed.
    """

    def work(state: State) -> Release:
        return released(mechanism, private_of(state), state)

    def judge(state: State, made: Release) -> Judgement:
        other = error_of(state, released(mechanism, private_of(state, Neighbours.ADD_REMOVE_UNIT), state))
        exact = exact_answers(state.statistics, state.queries)
        guesses = baselines(state.queries, state.statistics, state.units)
        return Judgement(
            error=error_of(state, made),
            baselines={
                name: {"max": found.max, "mean": found.mean}
                for name, found in (
                    (name, errors(state.queries, guess, exact, state.units)) for name, guess in guesses.items()
                )
            },
            facts={"add_remove_max": other["max"], "add_remove_mean": other["mean"]},
        )

    targets = [
        Target("mean of the largest errors", "<=", largest, lambda runs: _mean(run.error["max"] for run in runs))
    ]
    if mean is not None:
        targets.append(
            Target("mean of the mean errors", "<=", mean, lambda runs: _mean(run.error["mean"] for run in runs))
        )
    if added is not None:
        targets.append(
            Target(
                "mean of the largest errors, add or remove",
                "<=",
                added,
                lambda runs: _mean(run.facts["add_remove_max"] for run in runs),
            )
        )
    params = {**PARAMS, "mechanism": repr(mechanism)}
    return Case(params, (1, 2, 3, 4, 5), inputs, prepare, work, judge, targets)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
