"""Predicted over measured CPU seconds of mechanisms with a model, and the limit that ends their fits.

The tables are those on which fits once did not end: a tree of millions of cells with thousands of marginals, attributes
of hundreds of values, many rows, and many attributes. How many rounds and sweeps they take depends on the data, so
that no prediction is within a factor of 2 on all of them; ``dpcore/decisions/work.md`` reports the spread.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import DomainTooLargeError
from dpcore.evaluation import baselines, exact_answers
from dpcore.queries import Marginals
from dpcore.workload import Workload, explicit
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import made, mechanism, private_of

MAX_WORK: Final = 15.0  # Units; the default would take minutes for the first table.
EPSILON: Final = 1.0
MECHANISMS: Final = ("clique_tree", "gaussian_pgm", "aim")
SEED: Final = 26
TRIPLES: Final = 300  # Of the widest table.


@dataclass(frozen=True)
class Shape:
    """Rows and attributes of a generated table, and how strongly an attribute follows one of the three before it."""

    rows: int
    sizes: tuple[int, ...]
    dependence: float


SHAPES: Final[Mapping[str, Shape]] = {
    "bits": Shape(47_000, (2,) * 23, 0.4),
    "large_domains": Shape(136_000, (500, 150, 60, 30, 20, 8, 6, 3, 2), 0.5),
    "many_rows": Shape(300_000, (2, 2, 3, 4, 5, 5, 7, 8, 9, 15, 16, 16, 30, 42, 60), 0.3),
    "wide": Shape(20_000, tuple(2 + number % 9 for number in range(60)), 0.6),
}


@dataclass(frozen=True)
class Timed:
    """Predicted and measured CPU seconds of a release, the counting of its data included, and its answers."""

    predicted: float
    seconds: float
    answers: NDArray[np.float64]


def generated(shape: Shape) -> NDArray[np.int64]:
    """Codes of the rows, int64 [rows, attributes]: with some probability, a function of an earlier attribute."""
    generator = np.random.default_rng(SEED)
    codes = np.empty((shape.rows, len(shape.sizes)), dtype=np.int64)
    for axis, size in enumerate(shape.sizes):
        chances = generator.dirichlet(np.full(size, 0.7))
        codes[:, axis] = generator.choice(size, shape.rows, p=chances)
        if axis:
            parent = max(0, axis - 1 - int(generator.integers(0, 3)))
            values = generator.integers(0, size, shape.sizes[parent])[codes[:, parent]]
            follows = generator.random(shape.rows) < shape.dependence
            codes[follows, axis] = values[follows]
    return codes


def inputs(data: Path) -> Inputs:
    def make(shape: Shape, target: Path) -> None:
        target.mkdir(parents=True)
        codes = generated(shape)
        columns = {f"a{axis:02d}": pa.array(codes[:, axis]) for axis in range(len(shape.sizes))}
        pq.write_table(pa.table(columns | {"row": pa.array(np.arange(shape.rows))}), target / "part-0.parquet")
        (target / "domain.json").write_text(json.dumps(dict(zip(columns, shape.sizes, strict=True))))

    return {name: kept(data, f"work-{name}", partial(make, shape)) for name, shape in SHAPES.items()}


def workload(table: Table) -> Workload:
    """All triples, or some of them where there are thousands of thousands."""
    triples = list(combinations(table.domain.names, 3))
    if len(table.domain.names) > 30:
        chosen = np.random.default_rng(SEED).choice(len(triples), TRIPLES, replace=False)
        triples = [triples[index] for index in sorted(chosen.tolist())]
    return explicit(table.domain, dict.fromkeys(triples, 1.0))


def prepare(paths: Inputs, seed: int) -> dict[str, Table]:
    return {name: datasets.tabular({"table": path}) for name, path in paths.items()}


def work(tables: dict[str, Table], seed: int = 0) -> dict[str, Timed]:
    """Releases every table by every mechanism that accepts it."""
    timed = {}
    for name, table in tables.items():
        asked, statistics = workload(table), Remembered(table.statistics)
        for chosen in MECHANISMS:
            limited = mechanism(chosen, {"max_work": MAX_WORK})
            private = private_of(statistics, limited, EPSILON)
            try:
                predicted = limited.plan(private.terms, asked).cpu_seconds
            except DomainTooLargeError:
                continue
            assert predicted is not None
            start = time.process_time()
            release = made(limited, private, asked, seed, rows=False).release
            timed[f"{name}/{chosen}"] = Timed(predicted, time.process_time() - start, release.answers.values)
    return timed


def judge(tables: dict[str, Table], found: dict[str, Timed]) -> Judgement:
    """The error of a cell is the factor between predicted and measured seconds, at least 1. The trivial prediction is
    that every release takes as long as the limit.
    """
    ratios = {f"{cell}: predicted over measured": timed.predicted / timed.seconds for cell, timed in found.items()}
    factors = {cell: _factor(timed.predicted, timed.seconds) for cell, timed in found.items()}
    trivial = {cell: _factor(MAX_WORK, timed.seconds) for cell, timed in found.items()}
    facts = ratios | {f"{cell}: CPU s": timed.seconds for cell, timed in found.items()}
    for name, table in tables.items():
        asked, statistics = workload(table), Remembered(table.statistics)
        assert isinstance(asked.queries, Marginals)
        exact = exact_answers(statistics, asked.queries)
        for label, guess in baselines(asked.queries, statistics, table.units).items():
            facts[f"{name}/{label}: error"] = workload_error(asked, guess, exact, table.units)
        for cell, timed in found.items():
            if cell.startswith(f"{name}/"):
                facts[f"{cell}: error"] = workload_error(asked, timed.answers, exact, table.units)
    return Judgement(factors, {"as long as the limit": trivial}, facts)


def _factor(predicted: float, measured: float) -> float:
    return math.exp(abs(math.log(predicted / measured)))


def worst_factor(runs: Sequence[Run]) -> float:
    return max(max(run.error.values()) for run in runs)


def mean_factor(runs: Sequence[Run]) -> float:
    return float(np.exp(np.mean([math.log(factor) for run in runs for factor in run.error.values()])))


def slowest(runs: Sequence[Run]) -> float:
    return max(value for run in runs for name, value in run.facts.items() if name.endswith(": CPU s"))


CASE = Case(
    {
        "tables": {name: f"{shape.rows:,} rows, {len(shape.sizes)} attributes" for name, shape in SHAPES.items()},
        "workload": f"all triples; {TRIPLES} of the widest table",
        "mechanisms": list(MECHANISMS),
        "max_work": MAX_WORK,
        "epsilon": EPSILON,
        "delta": 1e-9,
        "neighbours": "add or remove one unit, n private",
        "engine": "local",
        "error": "factor between predicted and measured CPU seconds",
    },
    (1, 2),
    inputs,
    prepare,
    work,
    judge,
    [
        Target("factor between predicted and measured CPU seconds, worst cell", "<=", 2.0, worst_factor),
        Target("the same, geometric mean", "<=", 1.5, mean_factor),
        Target("CPU seconds of a release, worst", "<=", 600.0, slowest),
    ],
)
