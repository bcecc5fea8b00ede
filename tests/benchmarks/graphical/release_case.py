"""What cases share that release all 3-way marginals, or others, of one of the thesis's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from dpcore.evaluation import baselines, exact_answers
from dpcore.workload import Workload
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import DELTA, Made, Settings, errors_of, facts_of, made, mechanism, private_of
from tests.benchmarks.graphical.workloads import all_three_way

SEEDS: Final = (1, 2, 3, 4, 5)


@dataclass(frozen=True, eq=False)
class State:
    """A table behind the local engine, nothing of it counted yet, and the seed of post-processing."""

    table: Table
    workload: Workload
    seed: int


@dataclass(frozen=True)
class Setting:
    """What a case releases.

    dataset: Of `tabular`. asked: The workload in words. settings: Of the mechanism, where they are not its defaults.
    beside: Mechanisms with their defaults that are run in each process after the clock has stopped.
    measured_apart: What other implementations gave on other machines, for the reader.
    """

    dataset: str
    mechanism: str
    epsilon: float = 1.0
    settings: Settings | None = None
    workload: Callable[[str, Table], Workload] = all_three_way
    asked: str = "all 3-way marginals"
    beside: Sequence[str] = ()
    measured_apart: str = ""

    @property
    def params(self) -> dict[str, object]:
        about: dict[str, object] = {
            "dataset": f"tabular/{self.dataset}", "workload": self.asked,
            "mechanism": self.mechanism, "settings": dict(self.settings or {}) or "defaults", "epsilon": self.epsilon,
            "delta": DELTA, "neighbours": "add or remove one unit, n private", "engine": "local",
            "error": "thesis, Definition 26: no factor 1/2; mean of the answers, rows of the synthetic rows",
        }  # fmt: skip
        return about | ({"measured apart": self.measured_apart} if self.measured_apart else {})


def release_case(setting: Setting, targets: Sequence[Target], seeds: Sequence[int] = SEEDS) -> Case[State, Made]:
    """A fresh process for each seed. The measured work counts, releases, and makes as many rows as the model stands
    for.
    """
    return Case(
        setting.params,
        tuple(seeds),
        partial(datasets.tabular_inputs, setting.dataset),
        partial(prepare, setting),
        partial(work, setting),
        partial(judge, setting),
        targets,
    )


def prepare(setting: Setting, paths: Inputs, seed: int) -> State:
    table = datasets.tabular(paths)
    return State(table, setting.workload(setting.dataset, table), seed)


def work(setting: Setting, state: State) -> Made:
    asked = mechanism(setting.mechanism, setting.settings)
    return made(asked, private_of(state.table.statistics, asked, setting.epsilon), state.workload, state.seed)


def judge(setting: Setting, state: State, found: Made) -> Judgement:
    statistics, queries, units = Remembered(state.table.statistics), state.workload.queries, state.table.units
    exact = exact_answers(statistics, queries)
    trivial: dict[str, Figures] = {
        name: {"mean": workload_error(state.workload, guess, exact, units)}
        for name, guess in baselines(queries, statistics, units).items()
    }
    others: dict[str, Figures] = {}
    for name in setting.beside:
        asked = mechanism(name)
        other = made(asked, private_of(statistics, asked, setting.epsilon), state.workload, state.seed)
        errors = errors_of(other, state.workload, exact, units)
        others[name] = errors | {"cpu_seconds": other.release_seconds + other.rows_seconds}
    return Judgement(errors_of(found, state.workload, exact, units), trivial | others, facts_of(found))


def errors_at_most(mean: float | None = None, rows: float | None = None) -> list[Target]:
    """Targets of the means over the runs."""
    wanted = {"mean": ("mean of the errors of the answers", mean), "rows": ("mean of the errors of the rows", rows)}
    return [
        Target(name, "<=", limit, partial(mean_error, field))
        for field, (name, limit) in wanted.items()
        if limit is not None
    ]


def below(others: Sequence[str]) -> list[Target]:
    """The error of the answers is below that of each mechanism beside."""
    return [Target(f"mean of the errors over that of {name}", "<", 1.0, partial(_ratio, name)) for name in others]


def cpu_at_most(limit: float) -> Target:
    return Target("CPU seconds, worst run", "<=", limit, lambda runs: max(run.cpu_seconds for run in runs))


def memory_at_most(limit: float) -> Target:
    return Target("peak memory, MB", "<=", limit, lambda runs: max(run.peak_rss_mb for run in runs))


def mean_error(field: str, runs: Sequence[Run]) -> float:
    return float(np.mean([run.error[field] for run in runs]))


def mean_beside(name: str, runs: Sequence[Run]) -> float:
    return float(np.mean([run.baselines[name]["mean"] for run in runs]))


def _ratio(name: str, runs: Sequence[Run]) -> float:
    return mean_error("mean", runs) / mean_beside(name, runs)
