"""All triples of 23 and 27 binary attributes at three budgets, by the mechanism that `plan` recommends.

A model of the whole workload would have millions of cells, so that mechanisms with a model select, and those without
measure everything. Generated tables are a mixture of products, a chain, and independent attributes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.evaluation import baselines, exact_answers
from dpcore.mechanisms.recommendation import recommended
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import Settings, made, mechanism, private_of
from tests.benchmarks.graphical.workloads import all_three_way

BITS, ROWS = 23, 47_000
EPSILONS: Final = (0.1, 1.0, 10.0)
TABLES: Final = ("adult_27bits", "mixture", "chain", "independent")
BESIDE: Final[tuple[tuple[str, str, Settings], ...]] = (
    ("hdmm", "hdmm", {}),
    ("hdmm_nonnegative", "hdmm", {"answers": "nonnegative"}),
    ("clique_tree", "clique_tree", {}),
)


@dataclass(frozen=True, eq=False)
class Released:
    """By table and epsilon: the name of the mechanism, its answers, and the CPU seconds of the release."""

    answers: dict[tuple[str, float], tuple[str, NDArray[np.float64], float]]


def generated(kind: str, seed: int = 0) -> NDArray[np.int64]:
    """Codes of the rows, int64 [ROWS, BITS]."""
    generator = np.random.default_rng(seed)
    if kind == "mixture":
        classes = generator.choice(12, ROWS, p=generator.dirichlet(np.ones(12)))
        return (generator.random((ROWS, BITS)) < generator.beta(0.4, 0.8, (12, BITS))[classes]).astype(np.int64)
    if kind == "independent":
        return (generator.random((ROWS, BITS)) < generator.beta(0.7, 1.5, BITS)).astype(np.int64)
    codes = np.zeros((ROWS, BITS), dtype=np.int64)
    codes[:, 0] = generator.random(ROWS) < 0.3
    for axis in range(1, BITS):
        parent = codes[:, max(0, axis - 1 - int(generator.integers(0, 4)))]
        chances = np.where(parent, generator.beta(0.5, 1), generator.beta(1, 0.7))
        codes[:, axis] = generator.random(ROWS) < chances
    return codes


def inputs(data: Path) -> Inputs:
    def make(kind: str, target: Path) -> None:
        target.mkdir(parents=True)
        codes = generated(kind)
        columns = {f"b{axis:02d}": pa.array(codes[:, axis]) for axis in range(BITS)}
        pq.write_table(pa.table(columns | {"row": pa.array(np.arange(ROWS))}), target / "part-0.parquet")
        (target / "domain.json").write_text(json.dumps(dict.fromkeys(columns, 2)))

    paths = {"adult_27bits": datasets.tabular_inputs("adult_27bits", data)["table"]}
    return paths | {kind: kept(data, f"bits-{BITS}-{kind}", partial(make, kind)) for kind in TABLES[1:]}


def prepare(paths: Inputs, seed: int) -> dict[str, Table]:
    return {name: datasets.tabular({"table": path}) for name, path in paths.items()}


def work(tables: dict[str, Table]) -> Released:
    answers = {}
    for name, table in tables.items():
        workload, statistics = all_three_way(name, table), Remembered(table.statistics)
        for epsilon in EPSILONS:
            terms = private_of(statistics, mechanism("hdmm"), epsilon).terms
            asked = recommended(terms, workload).name
            start = time.process_time()
            private = private_of(statistics, mechanism(asked), epsilon)
            values = made(mechanism(asked), private, workload, 0, rows=False).release.answers.values
            answers[name, epsilon] = (asked, values, time.process_time() - start)
    return Released(answers)


def judge(tables: dict[str, Table], found: Released) -> Judgement:
    errors: dict[str, float] = {}
    beside: dict[str, dict[str, float]] = {}
    facts: dict[str, float] = {}
    for name, table in tables.items():
        workload, statistics = all_three_way(name, table), Remembered(table.statistics)
        exact = exact_answers(statistics, workload.queries)
        trivial = baselines(workload.queries, statistics, table.units)
        for epsilon in EPSILONS:
            _, values, seconds = found.answers[name, epsilon]
            cell = f"{name}/{epsilon:g}"
            errors[cell] = workload_error(workload, values, exact, table.units)
            facts[f"{cell}: CPU s"] = seconds
            for label, guess in trivial.items():
                beside.setdefault(label, {})[cell] = workload_error(workload, guess, exact, table.units)
            for label, other, settings in BESIDE:
                asked = mechanism(other, settings)
                private = private_of(statistics, asked, epsilon)
                release = made(asked, private, workload, 0, rows=False).release
                beside.setdefault(label, {})[cell] = workload_error(
                    workload, release.answers.values, exact, table.units
                )
    return Judgement(errors, {label: dict(cells) for label, cells in beside.items()}, facts)


def _mean(figures: Sequence[Figures], cell: str) -> float:
    return float(np.mean([figure[cell] for figure in figures]))


def ratios(runs: Sequence[Run]) -> list[float]:
    """For each cell, the mean error over that of the best other mechanism."""
    cells = list(runs[0].error)
    best = [min(_mean([run.baselines[label] for run in runs], cell) for label, _, _ in BESIDE) for cell in cells]
    return [_mean([run.error for run in runs], cell) / other for cell, other in zip(cells, best, strict=True)]


def slowest(runs: Sequence[Run]) -> float:
    return max(seconds for run in runs for seconds in run.facts.values())


CASE = Case(
    {
        "tables": {"adult_27bits": "30,163 rows", "generated": f"{ROWS:,} rows of {BITS} bits"},
        "workload": "all triples",
        "mechanism": "recommended",
        "epsilons": list(EPSILONS),
        "delta": 1e-9,
        "neighbours": "add or remove one unit, n private",
        "engine": "local",
        "error": "thesis, Definition 26",
    },
    (1, 2, 3),
    inputs,
    prepare,
    work,
    judge,
    [
        Target("CPU seconds of a release, worst", "<=", 60.0, slowest),
        Target(
            "error over that of the best of hdmm, hdmm with nonnegative answers and clique_tree, geometric mean",
            "<=", 0.95, lambda runs: float(np.exp(np.mean(np.log(ratios(runs))))),
        ),
        Target("the same, worst cell", "<=", 0.95, lambda runs: max(ratios(runs))),
    ],
)  # fmt: skip
