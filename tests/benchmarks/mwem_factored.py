"""MWEM as a product of tables: 27 bits of Adult, the same with 50 independent bits, and 1,000 independent bits."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.multiplicative_weights.factored import FactoredModel
from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.workload import Workload, explicit
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.releases import mechanism, private_of
from tests.support.constants import with_constants

EPSILON: Final = 1.0
EXTRA, WIDE, WIDE_ROWS, RANDOM = 50, 1_000, 50_000, 500
ROUNDS, WIDE_ROUNDS, WIDE_START = 40, 20, 0.5
PAPER_SECONDS: Final = {"adult": 80, "1,000 bits": 19}


@dataclass(frozen=True, eq=False)
class Asked:
    """A table and what is asked of it."""

    table: Table
    workload: Workload


@dataclass(frozen=True, eq=False)
class Made:
    """cpu_seconds: Of the release, counting included."""

    release: Release
    cpu_seconds: float


def inputs(data: Path) -> Inputs:
    adult = datasets.tabular_inputs("adult_27bits", data)["table"]

    def beside(target: Path) -> None:
        table = pq.read_table(adult / "part-0.parquet")
        _write(
            target,
            {name: table[name].to_numpy() for name in _adult_names(table.column_names)} | _bits(EXTRA, table.num_rows),
        )

    def wide(target: Path) -> None:
        _write(target, _bits(WIDE, WIDE_ROWS))

    return {
        "adult": adult,
        "adult and 50 bits": kept(data, f"adult-27bits-and-{EXTRA}", beside),
        "1,000 bits": kept(data, f"independent-{WIDE}-bits-of-{WIDE_ROWS}", wide),
    }


def prepare(paths: Inputs, seed: int) -> dict[str, Asked]:
    """Each table, and a first small release of each kind, so that nothing is compiled or read for the first time."""
    tables = {name: datasets.tabular({"table": path}) for name, path in paths.items()}
    asked = {name: Asked(table, explicit(table.domain, _cliques(name, table.domain))) for name, table in tables.items()}
    small = explicit(tables["adult"].domain, {("b00", "b01"): 1.0, ("b02", "b03", "b04"): 1.0})
    released(Asked(tables["adult"], small), Mwem(rounds=2))
    return asked


def work(asked: dict[str, Asked]) -> dict[str, Made]:
    # The independent bits follow from one-way marginals alone, which therefore get half of the budget.
    wide = with_constants(Mwem(rounds=WIDE_ROUNDS), start_share=WIDE_START)
    chosen = {"adult": Mwem(rounds=ROUNDS), "adult and 50 bits": Mwem(rounds=ROUNDS), "1,000 bits": wide}
    return {name: released(what, chosen[name]) for name, what in asked.items()}


def released(asked: Asked, chosen: Mechanism) -> Made:
    private = private_of(asked.table.statistics, chosen, EPSILON, delta=0.0)
    start = time.process_time()
    release = chosen.run(private, asked.workload, generator=np.random.default_rng(0))
    return Made(release, time.process_time() - start)


def judge(asked: dict[str, Asked], made: dict[str, Made]) -> Judgement:
    """Mean total variation over the workload's marginals."""
    error: dict[str, float] = {}
    guesses: dict[str, dict[str, float]] = {"uniform": {}, "product": {}, "noisy one-way": {}}
    facts: dict[str, float] = {}
    for name, what in asked.items():
        truth = exact_answers(what.table.statistics, what.workload.queries)
        error[name] = _variation(what, made[name].release.answers.values, truth)
        guessed = baselines(what.workload.queries, what.table.statistics, what.table.units)
        guessed["noisy one-way"] = released(what, mechanism("independent")).release.answers.values
        for guess in guesses:
            guesses[guess][name] = _variation(what, guessed[guess], truth)
        facts[f"cpu seconds, {name}"] = made[name].cpu_seconds
        facts[f"attributes of the largest table, {name}"] = _largest(made[name].release)
        facts[f"marginals, {name}"] = len(what.workload.weights)
    return Judgement(error, guesses, facts)


def _variation(asked: Asked, answers: NDArray[np.float64], exact: NDArray[np.int64]) -> float:
    return errors(asked.workload.queries, answers, exact, asked.table.units).total_variation or 0.0


def _largest(release: Release) -> int:
    model = release.model
    assert isinstance(model, FactoredModel)
    return max(len(group.domain.names) for group in model.groups)


def _cliques(name: str, domain: Domain) -> dict[Clique, float]:
    """Adult: all 3-way marginals. New bits: each alone, and with one of Adult; 1,000 bits: random pairs and triples."""
    generator = np.random.default_rng(0)
    if name == "1,000 bits":
        random = [
            tuple(domain.names[at] for at in generator.choice(WIDE, order, replace=False))
            for order in (2, 3)
            for _ in range(RANDOM)
        ]
        return dict.fromkeys([*((bit,) for bit in domain.names), *map(domain.canonical, random)], 1.0)
    adult, new = _adult_names(domain.names), [bit for bit in domain.names if bit.startswith("x")]
    mixed = [(adult[generator.integers(len(adult))], bit) for bit in new]
    return dict.fromkeys([*combinations(adult, 3), *((bit,) for bit in new), *mixed], 1.0)


def _adult_names(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith("b")]


def _bits(count: int, rows: int) -> dict[str, NDArray[np.int64]]:
    """Independent bits whose chances are uniform in .1 .. .9."""
    generator = np.random.default_rng(1)
    chances = generator.uniform(0.1, 0.9, count)
    return {f"x{place}": (generator.random(rows) < chance).astype(np.int64) for place, chance in enumerate(chances)}


def _write(target: Path, columns: Mapping[str, NDArray[np.int64]]) -> None:
    target.mkdir(parents=True)
    rows = next(iter(columns.values())).size
    pq.write_table(pa.table(dict(columns) | {"row": np.arange(rows)}), target / "part-0.parquet")
    (target / "domain.json").write_text(json.dumps(dict.fromkeys(columns, 2)))


def _seconds(name: str, runs: Sequence[Run]) -> float:
    return sum(run.facts[f"cpu seconds, {name}"] for run in runs) / len(runs)


def _worst(name: str, runs: Sequence[Run]) -> float:
    return max(run.facts[f"cpu seconds, {name}"] for run in runs)


def _ratio(runs: Sequence[Run]) -> float:
    return _seconds("adult and 50 bits", runs) / _seconds("adult", runs)


def _over(name: str, baseline: str, runs: Sequence[Run]) -> float:
    return max(run.error[name] / run.baselines[baseline][name] for run in runs)


CASE = Case(
    params={
        "epsilon": EPSILON, "delta": 0, "neighbours": "add or remove one unit, n private", "rounds": ROUNDS,
        "rounds, 1,000 bits": WIDE_ROUNDS, "share of the start, 1,000 bits": WIDE_START,
        "adult": "all 3-way marginals", "50 bits": "each alone, and with one bit of Adult",
        "1,000 bits": f"each alone, {RANDOM} random pairs and triples each, {WIDE_ROWS} rows",
        "seconds of the paper": PAPER_SECONDS,
    },
    seeds=(1, 2),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("CPU seconds, 27 bits of Adult, worst", "<", 80, functools.partial(_worst, "adult")),
        Target("CPU seconds with 50 bits more, over without", "<=", 1.2, _ratio),
        Target("CPU seconds, 1,000 bits, worst", "<", 10, functools.partial(_worst, "1,000 bits")),
        Target("error over the exact product's, Adult, worst", "<", 0.5, functools.partial(_over, "adult", "product")),
        Target("error over uniform's, 1,000 bits, worst", "<", 0.5, functools.partial(_over, "1,000 bits", "uniform")),
    ),
    cold=False,
)  # fmt: skip
