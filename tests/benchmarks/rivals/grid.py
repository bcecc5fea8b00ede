"""``python -m tests.benchmarks.rivals.grid --dataset titanic --epsilon 1`` computes a slice of the grid of rivals.

The grid runs rivals and our mechanisms with their defaults on all 3-way marginals of five tables at three epsilons, by
the code and the accounting of ``tests.benchmarks.graphical.grid``. What is stored in results/rivals is not computed
again; cells of our mechanisms that results/graphical holds are read from there. Then the page RIVALS.md is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.evaluation import exact_answers
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.cells import Cell, Store, read
from tests.benchmarks.graphical.grid import SEEDS, Task, compute
from tests.benchmarks.graphical.workloads import all_three_way
from tests.benchmarks.harness import FOLDER
from tests.benchmarks.provenance import digest, machine
from tests.benchmarks.rivals import RIVALS
from tests.benchmarks.rivals.report import write_report
from tests.benchmarks.rivals.votes import VotingStatistics

DATASETS: Final = ("adult", "titanic", "nltcs", "msnbc", "adult_27bits")
EPSILONS: Final = (0.1, 1.0, 10.0)
OURS: Final = ("aim", "clique_tree", "adaptive_residuals", "gaussian_pgm")
RUNS: Final = 2  # Of each cell, where no other number is asked for.
SECONDS: Final = 240.0  # Of CPU for one release.
WORKLOAD: Final = "ALL-3WAY"
RESULTS: Final = FOLDER / "results"


@dataclass(frozen=True)
class Folders:
    """Where results are stored: those of this grid, and those of the grid of our mechanisms."""

    rivals: Path = RESULTS / "rivals"
    ours: Path = RESULTS / "graphical"
    data: Path = FOLDER / "data"


def main(arguments: Sequence[str], folders: Folders = Folders()) -> int:  # A frozen constant.
    asked = _parsed(arguments)
    for dataset in asked.dataset:
        task, store = _task(dataset, folders)
        known = {(cell.epsilon, cell.mechanism) for cell in _stored_ours(folders, [dataset])}
        for epsilon in asked.epsilon:
            for name in asked.mechanism:
                if (epsilon, name) not in known:
                    compute(task, store, epsilon, name, SEEDS[: asked.seeds], asked.seconds, again=asked.again)
    page = write_report(cells(folders), folders.rivals.parent / "RIVALS.md", SECONDS)
    print(f"stored {page.name}")
    return 0


def cells(folders: Folders) -> list[Cell]:
    """All stored cells of all 3-way marginals: those of this grid, and those of our mechanisms in the other one."""
    return [*read(sorted(folders.rivals.glob("*.json"))), *_stored_ours(folders, DATASETS)]


def _stored_ours(folders: Folders, names: Sequence[str]) -> list[Cell]:
    stored = read(folders.ours / f"{name}.json" for name in names)
    return [cell for cell in stored if cell.workload == WORKLOAD and cell.mechanism in OURS]


def _task(dataset: str, folders: Folders) -> tuple[Task, Store]:
    inputs = datasets.tabular_inputs(dataset, folders.data)
    table = datasets.tabular(inputs)
    about = {
        "dataset": dataset, "delta": 1e-9, "neighbours": "add or remove one unit, n private", "machine": machine(),
        "inputs": {name: digest(path) for name, path in inputs.items()},
    }  # fmt: skip
    statistics = Remembered(VotingStatistics(table.statistics, _codes(inputs["table"], table.domain.names)))
    workload = all_three_way(dataset, table)
    exact = exact_answers(statistics, workload.queries)
    task = Task(dataset, WORKLOAD, statistics, workload, exact, table.units)
    return task, Store.opened(folders.rivals / f"{dataset}.json", about)


def _codes(path: Path, names: Sequence[str]) -> NDArray[np.int16]:
    """The rows of a table, int16 [rows, attributes]. SENSITIVE; for votes alone."""
    table = pq.read_table(path / "part-0.parquet", columns=list(names))
    return np.stack([table[name].to_numpy().astype(np.int16) for name in names], axis=1)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    known = [*RIVALS, *OURS]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rivals.grid", description=__doc__)
    parser.add_argument("--dataset", nargs="*", choices=DATASETS, default=[])
    parser.add_argument("--epsilon", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--mechanism", nargs="*", choices=known, default=known)
    parser.add_argument("--seeds", type=int, default=RUNS, choices=SEEDS, metavar="N", help="runs of each cell")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds that one release may take")
    parser.add_argument("--again", action="store_true", help="compute what is stored too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
