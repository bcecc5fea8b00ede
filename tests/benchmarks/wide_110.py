"""110 attributes of 2 to 40 values, whose 300 random triples and all pairs are released, few and many rows.

Generated tables are a tree of dependences, clusters of attributes that share a latent class, and one latent class for
all. A mechanism that selects needs few measurements for a tree, and cannot select enough for one latent class.

The distribution from which the rows were drawn is shown beside the mechanisms: its error is that of a perfect model of
the population. Only measurements of the marginals themselves come closer to these rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.evaluation import baselines, exact_answers
from dpcore.mechanisms.recommendation import recommended
from dpcore.queries import Marginals
from dpcore.workload import Workload, all_k_way
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import made, mechanism, private_of
from tests.benchmarks.graphical.workloads import random_three_way

ATTRIBUTES, EPSILON = 110, 1.0
MANY, FEW = 2_000_000, 20_000
KINDS: Final = ("tree", "clusters", "mixture")
TRIPLES: Final = 300
DISTRIBUTION: Final = "distribution.json"
_SMALLEST, _LARGEST = 2, 40
_CLUSTER, _CLUSTER_CLASSES, _CLASSES = 10, 8, 20  # Attributes of a cluster, and numbers of latent classes.
_REACH = 6  # A parent in the tree is among so many attributes before.
_LIMIT_SECONDS, _LIMIT_MB = 180.0, 2048.0


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of one row: each attribute, or latent class, depends on one before it, or on none.

    parents: For each of them, which one; -1 for none.
    tables: Probabilities of its values given that one, float64 [values of the parent, values]; one row where there is
        none.
    attributes: Which of them are attributes.
    """

    parents: list[int]
    tables: list[NDArray[np.float64]]
    attributes: list[int]

    def marginal(self, nodes: tuple[int, ...]) -> NDArray[np.float64]:
        """The joint probabilities of some of them, which are named in ascending order; one axis for each."""
        if not nodes:
            return np.ones(())
        *others, last = nodes
        parent, table = self.parents[last], self.tables[last]
        if parent < 0:
            return np.asarray(np.multiply.outer(self.marginal(tuple(others)), table[0]))
        above = tuple(sorted({*others, parent}))
        joint = np.moveaxis(self.marginal(above), above.index(parent), -1)
        if parent not in others:
            return np.asarray(joint @ table)
        return np.asarray(np.moveaxis(joint[..., np.newaxis] * table, -2, above.index(parent)))

    def answers(self, workload: Workload, rows: int) -> NDArray[np.float64]:
        """The expected count of each answer, float64 [answers]."""
        assert isinstance(workload.queries, Marginals)
        axis = dict(zip(workload.queries.domain.names, self.attributes, strict=True))
        cliques = workload.queries.cliques
        return rows * np.concatenate([self.marginal(tuple(axis[name] for name in part)).ravel() for part in cliques])


def sizes(generator: Generator) -> NDArray[np.int64]:
    """Numbers of values, log-uniform, int64 [ATTRIBUTES]."""
    drawn = np.exp(generator.uniform(np.log(_SMALLEST), np.log(_LARGEST + 0.49), ATTRIBUTES))
    return np.maximum(_SMALLEST, np.round(drawn)).astype(np.int64)


def generated(kind: str, rows: int, seed: int = 0) -> tuple[Distribution, NDArray[np.uint8]]:
    """The distribution, and the codes of the rows, uint8 [ATTRIBUTES, rows]."""
    generator = np.random.default_rng(seed)
    values = sizes(generator)
    codes = np.empty((ATTRIBUTES, rows), dtype=np.uint8)
    distribution = Distribution([], [], [])
    latent, latent_node = np.zeros(rows, dtype=np.int64), -1
    for axis, size in enumerate(values.tolist()):
        base = generator.dirichlet(np.full(size, 0.8))
        if kind == "tree":
            parent = int(generator.integers(max(0, axis - _REACH), axis)) if axis else -1
            given, classes = (codes[parent], int(values[parent])) if axis else (latent, 1)
            strength = generator.uniform(0.2, 0.9)
        else:
            classes = _CLUSTER_CLASSES if kind == "clusters" else _CLASSES
            if axis % _CLUSTER == 0 if kind == "clusters" else axis == 0:
                of_classes = generator.dirichlet(np.ones(classes))
                latent, latent_node = generator.choice(classes, rows, p=of_classes), len(distribution.parents)
                distribution.parents.append(-1)
                distribution.tables.append(of_classes[np.newaxis])
            given, parent, strength = latent, latent_node, generator.uniform(0.1, 0.7)
        conditional = (1 - strength) * base + strength * generator.dirichlet(np.full(size, 0.3), size=classes)
        codes[axis] = _drawn(conditional, given, generator)
        distribution.attributes.append(len(distribution.parents))
        distribution.parents.append(parent)
        distribution.tables.append(conditional)
    return distribution, codes


def _drawn(tables: NDArray[np.float64], given: NDArray[np.integer], generator: Generator) -> NDArray[np.uint8]:
    """One value for each row, from the probabilities of its class.

    tables: float64 [classes, values].
    given: int [rows], the class of each row.
    """
    uniform, drawn = generator.random(given.size), np.empty(given.size, dtype=np.uint8)
    for number, probabilities in enumerate(tables):
        rows = given == number
        drawn[rows] = np.minimum(np.searchsorted(np.cumsum(probabilities), uniform[rows]), tables.shape[1] - 1)
    return drawn


def all_pairs(name: str, table: Table) -> Workload:
    return all_k_way(table.domain, 2)


WORKLOADS: Final[dict[str, Callable[[str, Table], Workload]]] = {
    "triples": random_three_way(TRIPLES),
    "pairs": all_pairs,
}


@dataclass(frozen=True, eq=False)
class Released:
    """By table and workload: the name of the mechanism, its answers, and the CPU seconds of the release."""

    answers: dict[tuple[str, str], tuple[str, NDArray[np.float64], float]]


def inputs(data: Path) -> Inputs:
    def make(kind: str, rows: int, target: Path) -> None:
        target.mkdir(parents=True)
        distribution, codes = generated(kind, rows)
        names = [f"a{axis:03d}" for axis in range(ATTRIBUTES)]
        values = [distribution.tables[node].shape[1] for node in distribution.attributes]
        columns = {name: pa.array(column) for name, column in zip(names, codes, strict=True)}
        pq.write_table(pa.table(columns | {"row": pa.array(np.arange(rows))}), target / "part-0.parquet")
        written = {
            "parents": distribution.parents,
            "tables": [one.tolist() for one in distribution.tables],
            "attributes": distribution.attributes,
        }
        (target / DISTRIBUTION).write_text(json.dumps(written))
        (target / "domain.json").write_text(json.dumps(dict(zip(names, values, strict=True))))

    return {
        f"{kind}/{rows}": kept(data, f"wide-{ATTRIBUTES}-{kind}-{rows}-distribution", partial(make, kind, rows))
        for kind in KINDS for rows in (FEW, MANY)
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Asked:
    """Exact statistics of a table, counted once, and the workload. SENSITIVE."""

    statistics: Remembered
    workload: Workload
    units: int
    distribution: Distribution


def prepare(paths: Inputs, seed: int) -> dict[tuple[str, str], Asked]:
    asked = {}
    for name, path in paths.items():
        table = datasets.tabular({"table": path})
        statistics, distribution = Remembered(table.statistics), distribution_of(path)
        for label, workload in WORKLOADS.items():
            asked[name, label] = Asked(statistics, workload(name, table), table.units, distribution)
    return asked


def distribution_of(path: Path) -> Distribution:
    written = json.loads((path / DISTRIBUTION).read_text())
    return Distribution(written["parents"], [np.array(table) for table in written["tables"]], written["attributes"])


def work(tables: dict[tuple[str, str], Asked]) -> Released:
    answers = {}
    for key, asked in tables.items():
        terms = private_of(asked.statistics, mechanism("hdmm"), EPSILON).terms
        name = recommended(terms, asked.workload).name
        start = time.process_time()
        answers[key] = (name, _answers(asked, name), time.process_time() - start)
    return Released(answers)


def _answers(asked: Asked, name: str) -> NDArray[np.float64]:
    private = private_of(asked.statistics, mechanism(name), EPSILON)
    return made(mechanism(name), private, asked.workload, 0, rows=False).release.answers.values


def judge(tables: dict[tuple[str, str], Asked], found: Released) -> Judgement:
    errors: dict[str, float] = {}
    beside: dict[str, dict[str, float]] = {}
    facts: dict[str, float] = {}
    for key, asked in tables.items():
        cell, exact = "/".join(key), exact_answers(asked.statistics, asked.workload.queries)
        name, values, seconds = found.answers[key]
        errors[cell] = workload_error(asked.workload, values, exact, asked.units)
        facts[f"{cell}: CPU s"] = seconds
        guesses = baselines(asked.workload.queries, asked.statistics, asked.units)
        guesses["distribution of the rows"] = asked.distribution.answers(asked.workload, asked.units)
        guesses["clique_tree"] = values if name == "clique_tree" else _answers(asked, "clique_tree")
        for label, guess in guesses.items():
            beside.setdefault(label, {})[cell] = workload_error(asked.workload, guess, exact, asked.units)
    return Judgement(errors, beside, facts)


def ratios(runs: Sequence[Run], rows: int) -> list[float]:
    """For each cell of tables of so many rows, the mean error over that of ``clique_tree``."""
    cells = [cell for cell in runs[0].error if cell.split("/")[1] == str(rows)]
    return [_mean([run.error for run in runs], cell) / _mean(_trees(runs), cell) for cell in cells]


def _trees(runs: Sequence[Run]) -> list[Figures]:
    return [run.baselines["clique_tree"] for run in runs]


def _mean(figures: Sequence[Figures], cell: str) -> float:
    return float(np.mean([figure[cell] for figure in figures]))


def _worst(rows: int) -> Callable[[Sequence[Run]], float]:
    return lambda runs: max(ratios(runs, rows))


CASE = Case(
    {
        "tables": f"{', '.join(KINDS)}: {ATTRIBUTES} attributes of {_SMALLEST} to {_LARGEST} values",
        "rows": [FEW, MANY],
        "workloads": [f"{TRIPLES} random triples", "all pairs"],
        "mechanism": "recommended",
        "epsilon": EPSILON,
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
        Target(
            "CPU seconds of a release, counting included, worst",
            "<=", _LIMIT_SECONDS, lambda runs: max(seconds for run in runs for seconds in run.facts.values()),
        ),
        Target("peak memory, MB", "<=", _LIMIT_MB, lambda runs: max(run.peak_rss_mb for run in runs)),
        Target(f"error over that of clique_tree, {MANY:,} rows, worst cell", "<=", 0.9, _worst(MANY)),
        Target(f"error over that of clique_tree, {FEW:,} rows, worst cell", "<=", 1.0, _worst(FEW)),
    ],
)  # fmt: skip
