"""Rivals beside our mechanisms: all 3-way marginals of five tables at epsilon .1, 1 and 10.

The case computes what results/rivals lacks; ``python -m tests.benchmarks.rivals.grid`` computes it in slices.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.graphical.cells import Cell
from tests.benchmarks.graphical.grid_report import winners
from tests.benchmarks.harness import ROOT
from tests.benchmarks.rivals import RIVALS
from tests.benchmarks.rivals.grid import DATASETS, EPSILONS, RUNS, SECONDS, Folders, cells
from tests.benchmarks.rivals.report import recommended_is_close, rival_cells, won_by_rivals


def inputs(data: Path) -> Inputs:
    return {name: datasets.tabular_inputs(name, data)["table"] for name in DATASETS}


def prepare(paths: Inputs, seed: int) -> None:
    """Each slice opens its own inputs."""


def work(state: None) -> list[Cell]:
    """Computes a dataset at a time. What is done stays stored when a later one fails."""
    for name in DATASETS:
        subprocess.run([sys.executable, "-m", "tests.benchmarks.rivals.grid", "--dataset", name], cwd=ROOT, check=True)
    return cells(Folders())


def judge(state: None, stored: list[Cell]) -> Judgement:
    """The least error of each cell, beside those of every mechanism; the rest is facts."""
    errors: dict[str, dict[str, float]] = {}
    for cell in stored:
        if cell.runs:
            errors.setdefault(cell.mechanism, {})[f"{cell.dataset}/{cell.epsilon:g}"] = cell.error
    return Judgement(
        error={f"{cell.dataset}/{cell.epsilon:g}": cell.error for cell in winners(stored).values()},
        baselines=errors,
        facts={
            "compared cells": len(winners(stored)),
            "cells of rivals": rival_cells(stored),
            "cells won by rivals": len(won_by_rivals(stored)),
            "recommended is close to the best": recommended_is_close(stored),
        },
    )


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


CASE = Case(
    params={
        "datasets": DATASETS, "workload": "all triples", "epsilons": EPSILONS, "rivals": tuple(RIVALS), "delta": 1e-9,
        "runs of a cell, at least": RUNS, "CPU seconds of a release, at most": SECONDS,
        "results": "rivals/*.json, graphical/*.json, RIVALS.md",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "cells of rivals, run or cut off",
            "==", len(RIVALS) * len(DATASETS) * len(EPSILONS), functools.partial(_fact, "cells of rivals"),
        ),
        Target(
            "share of cells where the recommended mechanism is within 3 % or two standard errors of the best",
            ">=", 0.95, functools.partial(_fact, "recommended is close to the best"),
        ),
    ),
    cold=False,
)  # fmt: skip
