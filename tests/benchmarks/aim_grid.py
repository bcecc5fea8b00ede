"""All table mechanisms at epsilon .1, 1 and 10 on three workloads of four tables (thesis, Figures 5.1 to 5.3).

The mechanism that ``plan`` recommends has the least error in nearly every setting, and AIM does wherever a table does
not fit in memory. The case computes what results/graphical lacks; ``python -m tests.benchmarks.graphical.grid``
computes it in slices.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.graphical.cells import Cell, read
from tests.benchmarks.graphical.grid import DATASETS, EPSILONS, RUNS
from tests.benchmarks.graphical.grid_report import (
    best_of_table,
    is_best,
    recommended_is_best,
    recommended_ties,
    winners,
)
from tests.benchmarks.graphical.workloads import WORKLOADS
from tests.benchmarks.harness import FOLDER, ROOT

RESULTS = FOLDER / "results" / "graphical"
LARGE = ("adult", "titanic", "msnbc")


def inputs(data: Path) -> Inputs:
    return {name: datasets.tabular_inputs(name, data)["table"] for name in DATASETS}


def prepare(paths: Inputs, seed: int) -> None:
    """Each slice opens its own inputs."""


def work(state: None) -> list[Cell]:
    """Computes a dataset at a time. What is done stays stored when a later one fails."""
    for name in DATASETS:
        command = [sys.executable, "-m", "tests.benchmarks.graphical.grid", "--dataset", name]
        subprocess.run(command, cwd=ROOT, check=True)
    return read(sorted(RESULTS.glob("*.json")))


def judge(state: None, cells: list[Cell]) -> Judgement:
    """The error of AIM and of what is beside it on Adult, all 3-way marginals, at epsilon 1; the rest is facts."""
    shown = {cell.mechanism: cell for cell in cells if cell.key == ("adult", "ALL-3WAY", 1.0) and cell.runs}
    return Judgement(
        error={"mean": shown["aim"].error},
        baselines={name: {"mean": cell.error} for name, cell in shown.items() if name != "aim"},
        facts={
            "cells": len(winners(cells)),
            "runs": sum(len(cell.runs) for cell in cells),
            "recommended is best": recommended_is_best(cells),
            "recommended is within two standard errors of the best": recommended_ties(cells),
            "large tables whose best is aim": sum(best_of_table(name, cells) == "aim" for name in LARGE),
            "aim is best on the large tables": is_best("aim", LARGE, cells),
            "release_cpu_seconds": sum(run.cpu_seconds for cell in cells for run in cell.runs),
        },
    )


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


CASE = Case(
    params={
        "datasets": DATASETS, "workloads": tuple(WORKLOADS), "epsilons": EPSILONS, "runs of a cell, at least": RUNS,
        "results": "graphical/*.json, graphical/*.svg, GRID.md",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "compared cells", "==", len(DATASETS) * len(WORKLOADS) * len(EPSILONS), functools.partial(_fact, "cells")
        ),
        Target(
            "share of cells where the recommended mechanism is the best",
            ">=", 0.85, functools.partial(_fact, "recommended is best"),
        ),
        Target(
            "share of the cells of Adult, Titanic and MSNBC where AIM is the best",
            "==", 1.0, functools.partial(_fact, "aim is best on the large tables"),
        ),
    ),
    cold=False,
)  # fmt: skip
