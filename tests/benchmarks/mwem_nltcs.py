"""MWEM on the National Long-Term Care Survey, every 3-way marginal at epsilon 1, compared with the form of Fig. 1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.evaluation import baselines, errors
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.queries import Marginals
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload, all_k_way
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import TableLayout
from pipelines.schema import schema_from
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Target
from tests.benchmarks.generated import kept
from tests.support.constants import with_constants
from tests.support.datasets import folder
from tests.support.relative_entropy import relative_entropy

UNITS, EPSILON, ROUNDS, ORDER = 21_574, 1, 30, 3
DEFAULT = Mwem(rounds=ROUNDS)
VARIATIONS = with_constants(Mwem(rounds=ROUNDS), final_passes=0, start="uniform", step=0.5)  # Of section 2.3.2.
FIGURE_1 = with_constants(Mwem(rounds=ROUNDS, profile="published"), size_penalty="noise")


@dataclass(frozen=True)
class State:
    """The table behind an engine, and what is asked of it."""

    statistics: Statistics
    workload: Workload
    names: tuple[str, ...]


def inputs(data: Path) -> Inputs:
    """The survey with a column that numbers its rows, because each row is a person."""

    def make(target: Path) -> None:
        target.mkdir(parents=True)
        parts = [pq.read_table(file) for file in sorted((folder() / "tabular/nltcs").glob("*.parquet"))]
        table = pa.concat_tables(parts)
        pq.write_table(table.append_column("row", pa.array(np.arange(table.num_rows))), target / "part-0.parquet")

    return {"nltcs": kept(data, "nltcs-with-rows", make)}


def prepare(paths: Inputs, seed: int) -> State:
    names = [name for name in pq.read_schema(paths["nltcs"] / "part-0.parquet").names if name != "row"]
    binary = {"type": "categorical", "values": [0, 1], "other": False, "null": False}
    schema = schema_from({"version": 1, "attributes": [{"name": name, **binary} for name in names]})
    source = open_source(str(paths["nltcs"]), TableLayout("row", schema), salt=bytes(16))
    return State(EngineStatistics(LocalEngine(), source), all_k_way(schema.domain, ORDER), tuple(names))


def release(state: State, mechanism: Mwem) -> Release:
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, state.statistics.contribution, UNITS)
    budget = Budget.pure(EPSILON)
    private = PrivateStatistics(
        state.statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
    return mechanism.run(private, state.workload, generator=np.random.default_rng(0))


def work(state: State) -> Release:
    return release(state, VARIATIONS)


def judge(state: State, made: Release) -> Judgement:
    """Errors of all cells as fractions of the units; relative entropy of the whole table in nats."""
    queries = state.workload.queries
    exact = state.statistics.aggregate(QueryAnswers(queries))
    whole = state.statistics.aggregate(QueryAnswers(Marginals(queries.domain, (state.names,))))
    guesses = baselines(queries, state.statistics, UNITS)
    product = baselines(Marginals(queries.domain, (state.names,)), state.statistics, UNITS)["product"]
    return Judgement(
        error=_figures(state, made, exact, whole),
        baselines={name: _errors(state, guess, exact) for name, guess in guesses.items()}
        | {"product table": {"relative_entropy": relative_entropy(whole, product)}}
        | {"default settings": _figures(state, release(state, DEFAULT), exact, whole)}
        | {"form of Fig. 1": _figures(state, release(state, FIGURE_1), exact, whole)},
    )


def _figures(state: State, made: Release, exact: NDArray[np.int64], whole: NDArray[np.int64]) -> dict[str, float]:
    return _errors(state, made.answers.values, exact) | {"relative_entropy": _entropy(made, whole)}


def _errors(state: State, answers: NDArray[np.float64], exact: NDArray[np.int64]) -> dict[str, float]:
    found = errors(state.workload.queries, answers, exact, UNITS)
    return {"max": found.max, "mean": found.mean, "total_variation": found.total_variation or 0.0}


def _entropy(made: Release, whole: NDArray[np.int64]) -> float:
    assert isinstance(made.model, DenseModel)
    return relative_entropy(whole, made.model.table)


CASE = Case(
    params={"epsilon": EPSILON, "delta": 0, "rounds": ROUNDS, "order": ORDER, "passes": 10, "fractions_of": UNITS},
    seeds=(1, 2, 3, 4, 5),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("mean cell error, worst of 5", "<=", 0.012, lambda runs: max(run.error["mean"] for run in runs)),
        Target(
            "relative entropy, worst of 5", "<=", 0.7, lambda runs: max(run.error["relative_entropy"] for run in runs)
        ),
    ),
)
