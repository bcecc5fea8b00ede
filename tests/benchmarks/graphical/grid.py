"""``python -m tests.benchmarks.graphical.grid --dataset titanic --epsilon 1`` computes a slice of the grid.

The grid runs every mechanism with its defaults on three workloads of four tables at three epsilons. Neighbours add or
remove one unit, the number of units is private, and delta is 1e-9. What is stored in results/graphical is not computed
again. The table and the plots are then written from all stored runs; without a dataset nothing is computed.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import MarqueeError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.recommendation import recommended
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.workload import Workload
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.cells import Cell, Outcome, Store
from tests.benchmarks.graphical.grid_report import write_report
from tests.benchmarks.graphical.limits import CutError, limited
from tests.benchmarks.graphical.releases import DELTA, errors_of, facts_of, made, mechanism, private_of
from tests.benchmarks.graphical.workloads import WORKLOADS
from tests.benchmarks.harness import FOLDER, ROOT
from tests.benchmarks.provenance import commit, digest, machine

DATASETS: Final = ("adult", "titanic", "nltcs", "msnbc")
EPSILONS: Final = (0.1, 1.0, 10.0)
SEEDS: Final = tuple(range(1, 201))
RUNS: Final = 5  # Of each cell at least, where no other number is asked for.
SECONDS: Final = 300.0  # Of CPU for one release; a mechanism that takes longer is no choice here.
_OVER: Final = "over "


@dataclass(frozen=True, eq=False)
class Task:
    """A workload whose exact answers are known, so that a release counts nothing again."""

    dataset: str
    name: str
    statistics: Remembered
    workload: Workload
    exact: NDArray[np.int64]
    units: int


def main(
    arguments: Sequence[str], folder: Path = FOLDER / "results" / "graphical", data: Path = FOLDER / "data"
) -> int:
    asked = _parsed(arguments)
    for dataset in asked.dataset:
        for task, store in _tasks(dataset, asked.workload, folder, data):
            for epsilon in asked.epsilon:
                for name in asked.mechanism:
                    compute(task, store, epsilon, name, SEEDS[: asked.seeds], asked.seconds, again=asked.again)
    print(f"stored {write_report(folder, folder.parent / 'GRID.md').name}")
    return 0


def compute(
    task: Task, store: Store, epsilon: float, name: str, seeds: Sequence[int], seconds: float, *, again: bool = False
) -> Cell:
    """The cell with a run for each of the seeds; only those that the store lacks are made.

    A mechanism that was cut off at one epsilon is not tried at another.
    """
    cell = None if again else store.get(task.name, epsilon, name)
    cell = cell or Cell(task.dataset, task.name, epsilon, name, refused="" if again else _cut_before(task, store, name))
    cell = replace(cell, recommended=name == _recommended(task, epsilon))
    store.put(cell)
    for seed in seeds:
        if cell.refused or seed in [run.seed for run in cell.runs]:
            continue
        try:
            with limited(seconds):
                cell = replace(cell, runs=(*cell.runs, _outcome(task, epsilon, name, seed)))
        except (MarqueeError, ValueError) as error:
            cell = replace(cell, refused=str(error))
        except CutError:
            cell = replace(cell, refused=f"{_OVER}{seconds:g} CPU seconds")
        store.put(cell)
        said = cell.refused or f"{cell.runs[-1].mean:.4g}, {cell.runs[-1].cpu_seconds:.1f} CPU s"
        print(f"{task.dataset} {task.name} {epsilon:g} {name} seed {seed}: {said}", file=sys.stderr, flush=True)
    return cell


@functools.cache
def _recommended(task: Task, epsilon: float) -> str:
    """What ``plan`` recommends, for the currency of mechanisms that mostly add Gaussian noise."""
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, task.statistics.contribution)
    return recommended(PrivacyTerms(unit, budget_of(epsilon, DELTA, Currency.GDP)), task.workload).name


def _cut_before(task: Task, store: Store, name: str) -> str:
    """Why the mechanism was cut off on this workload at another epsilon; empty where it was not."""
    others = (cell.refused for cell in store.cells.values() if (cell.workload, cell.mechanism) == (task.name, name))
    return next((reason for reason in others if reason.startswith(_OVER)), "")


def _outcome(task: Task, epsilon: float, name: str, seed: int) -> Outcome:
    asked = mechanism(name)
    start = time.process_time()
    found = made(asked, private_of(task.statistics, asked, epsilon), task.workload, seed)
    seconds = time.process_time() - start
    errors = errors_of(found, task.workload, task.exact, task.units)
    size = facts_of(found).get("model_mb")
    return Outcome(seed, errors["mean"], seconds, commit(ROOT), errors.get("rows"), size)


def _tasks(dataset: str, workloads: Sequence[str], folder: Path, data: Path) -> Iterator[tuple[Task, Store]]:
    inputs = datasets.tabular_inputs(dataset, data)
    table = datasets.tabular(inputs)
    about = {
        "dataset": dataset, "delta": DELTA, "neighbours": "add or remove one unit, n private", "machine": machine(),
        "inputs": {name: digest(path) for name, path in inputs.items()},
    }  # fmt: skip
    store = Store.opened(folder / f"{dataset}.json", about)
    for name in workloads:
        workload = WORKLOADS[name](dataset, table)
        statistics = Remembered(table.statistics)
        exact = exact_answers(statistics, workload.queries)
        yield Task(dataset, name, statistics, workload, exact, table.units), store


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.graphical.grid", description=__doc__)
    parser.add_argument("--dataset", nargs="*", choices=DATASETS, default=[])
    parser.add_argument("--workload", nargs="*", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--epsilon", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--mechanism", nargs="*", choices=list(MECHANISMS), default=list(MECHANISMS))
    parser.add_argument(
        "--seeds", type=int, default=RUNS, choices=SEEDS, metavar="N", help="runs of each cell, 1 to 200"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds that one release may take")
    parser.add_argument("--again", action="store_true", help="compute what is stored too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
