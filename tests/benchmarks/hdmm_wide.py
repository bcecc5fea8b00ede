"""Residual planning for all marginals of at most three of 100 attributes; one of them is measured and reconstructed."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.evaluation import exact_answers
from dpcore.queries import Marginals
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.residual_planning.planning import ResidualPlan, least_squared_error
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.releases import mechanism, private_of
from tests.support.residual_queries import residual_queries

ATTRIBUTES, VALUES, ROWS, ORDER = 100, 10, 100_000, 3
EPSILON, DELTA = 1.0, 1e-6


@dataclass(frozen=True, eq=False)
class Made:
    """planning: CPU seconds. answers, stddev: float64 [cells] of the marginal. measured: Attributes of each query."""

    plan: ResidualPlan
    planning: float
    answers: NDArray[np.float64]
    stddev: NDArray[np.float64]
    measured: list[Clique]


def inputs(data: Path) -> Inputs:
    def make(target: Path) -> None:
        target.mkdir(parents=True)
        generator = np.random.default_rng(0)
        codes = generator.integers(0, VALUES, (ATTRIBUTES, ROWS))
        codes[1:] = np.where(generator.random((ATTRIBUTES - 1, ROWS)) < 0.5, codes[:-1], codes[1:])
        columns = {f"x{place}": pa.array(codes[place], pa.int64()) for place in range(ATTRIBUTES)}
        pq.write_table(pa.table(columns | {"row": pa.array(np.arange(ROWS))}), target / "part-0.parquet")
        (target / "domain.json").write_text(json.dumps(dict.fromkeys(columns, VALUES)))

    return {"table": kept(data, f"chain-{ATTRIBUTES}-by-{VALUES}", make)}


def prepare(paths: Inputs, seed: int) -> Table:
    return datasets.tabular(paths)


def work(table: Table) -> Made:
    """The budget that the plan gives each part of the asked marginal, and no other part is measured."""
    domain, asked = table.domain, mechanism("hdmm")
    cliques = chain.from_iterable(combinations(domain.names, order) for order in range(ORDER + 1))
    start = time.process_time()
    plan = least_squared_error(domain, dict.fromkeys(cliques, 1.0))
    planning = time.process_time() - start
    private = private_of(table.statistics, asked, EPSILON, DELTA)
    shares = dict(zip(plan.residuals, exact_shares(plan.shares), strict=True))
    clique = _asked(table)
    parts = list(chain.from_iterable(combinations(clique, order) for order in range(ORDER + 1)))
    residuals = Residuals([private.measure(residual_queries(domain, part), shares[part]) for part in parts])
    answers = residuals.answers(Marginals(domain, (clique,)))
    return Made(plan, planning, answers.values, answers.stddev, parts)


def judge(table: Table, made: Made) -> Judgement:
    exact = exact_answers(table.statistics, Marginals(table.domain, (_asked(table),)))
    off = made.answers - exact
    cells = sum(table.domain.size(clique) for clique in made.plan.marginals)
    return Judgement(
        {"squared error over predicted": float(off @ off / (made.stddev @ made.stddev))},
        facts={
            "planning_cpu_seconds": made.planning,
            "marginals": len(made.plan.marginals),
            "rmse at sigma 1": float(np.sqrt(made.plan.error / cells)),
            "largest measured clique": max(map(len, made.measured)),
            "stddev of a cell": float(made.stddev[0]),
        },
    )


def _asked(table: Table) -> Clique:
    return table.domain.canonical(table.domain.names[place] for place in (3, 40, 97))


def _fact(name: str, runs: Sequence[Run]) -> float:
    return max(run.facts[name] for run in runs)


CASE = Case(
    params={
        "attributes": ATTRIBUTES, "values": VALUES, "rows": ROWS, "workload": f"all marginals of at most {ORDER}",
        "epsilon": EPSILON, "delta": DELTA, "neighbours": "add or remove one unit, n private",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("marginals", "==", 166_751, functools.partial(_fact, "marginals")),
        Target("CPU seconds of planning, worst run", "<", 3, functools.partial(_fact, "planning_cpu_seconds")),
        Target("attributes of a table, most", "<=", ORDER, functools.partial(_fact, "largest measured clique")),
        Target("RMSE at sigma 1", "<", 303.22, functools.partial(_fact, "rmse at sigma 1")),
    ),
)  # fmt: skip
