"""What a public table gains and costs: clique_tree on half of four tables, with several kinds of public rows.

The public rows are the other half, 500 of its rows, those with the most frequent value of one attribute, the other half
with every column shuffled, or with other values in every second column. The private half, the public rows and their
spoiling are the same in every run. All triples, Definition 26.
"""

from __future__ import annotations

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

from dpcore.estimation.public_table import PublicTable
from dpcore.evaluation import baselines, exact_answers
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.queries import Marginals
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import DELTA, private_of
from tests.benchmarks.graphical.workloads import all_three_way

REPEATED: Final = {"adult": 1, "titanic": 8, "nltcs": 2, "msnbc": 1}
"""Releases of each cell in each run: of small tables more, because their errors vary more."""

EPSILONS: Final = (0.1, 1.0, 10.0)
KINDS: Final = ("none", "good", "small", "subset", "shuffled", "relabelled")
BAD: Final = ("shuffled", "relabelled")
SPLIT_SEED: Final = 7


@dataclass(frozen=True, eq=False)
class Half:
    """The private half of a table, and the public rows of each kind."""

    private: Table
    public: dict[str, PublicTable]


@dataclass(frozen=True, eq=False)
class Released:
    """By table, epsilon and kind of public rows: the answers of each release, and their mean CPU seconds."""

    answers: dict[tuple[str, float, str], tuple[list[NDArray[np.float64]], float]]


def inputs(data: Path) -> Inputs:
    """The two halves of each table, in one folder each."""

    def make(name: str, part: int, target: Path) -> None:
        target.mkdir(parents=True)
        origin = datasets.tabular_inputs(name, data)["table"]
        table = pq.read_table(origin / "part-0.parquet")
        order = np.random.default_rng(SPLIT_SEED).permutation(table.num_rows)
        half = np.sort(order[: len(order) // 2] if part == 0 else order[len(order) // 2 :])
        pq.write_table(table.take(pa.array(half)), target / "part-0.parquet")
        (target / "domain.json").write_text((origin / "domain.json").read_text())

    return {
        f"{name}-{part}": kept(data, f"{name}-half-{part}", partial(make, name, part))
        for name in REPEATED
        for part in (0, 1)
    }


def prepare(paths: Inputs, seed: int) -> dict[str, Half]:
    return {name: _half(paths[f"{name}-0"], paths[f"{name}-1"]) for name in REPEATED}


def _half(private: Path, public: Path) -> Half:
    table, rows = datasets.tabular({"table": private}), pq.read_table(public / "part-0.parquet")
    names, generator = table.domain.names, np.random.default_rng(SPLIT_SEED)
    codes = np.stack([rows[name].to_numpy() for name in names], axis=1).astype(np.int32)
    codes = generator.permutation(codes)
    common = np.argsort(table.domain.sizes)[len(names) // 2]
    relabelled = codes.copy()
    for axis in range(0, len(names), 2):
        relabelled[:, axis] = generator.permutation(table.domain.sizes[axis])[codes[:, axis]]
    made = {
        "good": codes,
        "small": codes[:500],
        "subset": codes[codes[:, common] == np.bincount(codes[:, common]).argmax()],
        "shuffled": generator.permuted(codes, axis=0),
        "relabelled": relabelled,
    }
    return Half(table, {kind: PublicTable(table.domain, public_codes) for kind, public_codes in made.items()})


def work(halves: dict[str, Half]) -> Released:
    answers = {}
    for name, half in halves.items():
        statistics, workload = Remembered(half.private.statistics), all_three_way(name, half.private)
        for epsilon in EPSILONS:
            for kind in KINDS:
                asked = CliqueTree() if kind == "none" else CliqueTree().with_public(half.public[kind])
                start = time.process_time()
                values = [
                    asked.run(private_of(statistics, asked, epsilon), workload, generator=np.random.default_rng(0))
                    for _ in range(REPEATED[name])
                ]
                seconds = (time.process_time() - start) / len(values)
                answers[name, epsilon, kind] = ([release.answers.values for release in values], seconds)
    return Released(answers)


def judge(halves: dict[str, Half], released: Released) -> Judgement:
    errors: dict[str, float] = {}
    beside: dict[str, dict[str, float]] = {}
    facts: dict[str, float] = {}
    for name, half in halves.items():
        table, workload = half.private, all_three_way(name, half.private)
        queries, statistics = workload.queries, Remembered(half.private.statistics)
        assert isinstance(queries, Marginals)
        exact = exact_answers(statistics, queries)
        for label, guess in baselines(queries, statistics, table.units).items():
            beside.setdefault(label, {})[name] = workload_error(workload, guess, exact, table.units)
        for kind, public in half.public.items():
            guess = np.concatenate([public.counts(clique) for clique in queries.cliques]) * table.units / public.rows
            beside.setdefault(f"{kind} rows alone", {})[name] = workload_error(workload, guess, exact, table.units)
        for epsilon in EPSILONS:
            for kind in KINDS:
                values, seconds = released.answers[name, epsilon, kind]
                cell = f"{name}/{epsilon:g}/{kind}"
                errors[cell] = float(
                    np.mean([workload_error(workload, answers, exact, table.units) for answers in values])
                )
                facts[f"{cell}: CPU s"] = seconds
    return Judgement(errors, beside, facts)


def _over_none(kinds: Sequence[str], epsilons: Sequence[float], runs: Sequence[Run]) -> list[float]:
    """Mean errors over those without public rows, one for each table, epsilon and kind."""
    means = {cell: float(np.mean([run.error[cell] for run in runs])) for cell in runs[0].error}
    return [
        means[f"{name}/{epsilon:g}/{kind}"] / means[f"{name}/{epsilon:g}/none"]
        for name in REPEATED
        for epsilon in epsilons
        for kind in kinds
    ]


def _mean_over_none(kinds: Sequence[str], epsilons: Sequence[float], runs: Sequence[Run]) -> float:
    """The geometric mean of ``_over_none``."""
    return float(np.exp(np.mean(np.log(_over_none(kinds, epsilons, runs)))))


CASE = Case(
    params={
        "datasets": [f"tabular/{name}" for name in REPEATED],
        "workload": "all 3-way marginals",
        "mechanism": "clique_tree",
        "epsilons": list(EPSILONS),
        "delta": DELTA,
        "public": list(KINDS),
        "releases": dict(REPEATED),
        "neighbours": "add or remove one unit, n private",
        "error": "thesis, Definition 26, as a part of the private half",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "good rows at epsilon 0.1 over none, geometric mean of the tables",
            "<=",
            0.5,
            partial(_mean_over_none, ("good",), (0.1,)),
        ),
        Target(
            "bad rows over none, geometric mean of the cells",
            "<=",
            1.03,
            partial(_mean_over_none, BAD, EPSILONS),
        ),
        Target(
            "any rows over none, worst cell",
            "<=",
            1.1,
            lambda runs: max(_over_none(KINDS[1:], EPSILONS, runs)),
        ),
    ),
)
