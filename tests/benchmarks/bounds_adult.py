"""Confidence bounds of AIM on Adult, all 3-way marginals at epsilon 10 (thesis, section 5.6.6 and Figure 5.5).

The case checks that the bounds hold as often as they claim, and measures how far above the errors they are. It computes
what results/bounds lacks; ``python -m tests.benchmarks.graphical.bounds_runs`` computes it in slices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.benchmarks.figures import datasets
from tests.benchmarks.graphical.bounds_runs import (
    CONFIDENCE,
    DATASET,
    EPSILON,
    RUNS,
    SETTINGS,
    STORED,
    Coverage,
    compute,
)
from tests.benchmarks.graphical.releases import DELTA


def inputs(data: Path) -> Inputs:
    return datasets.tabular_inputs(DATASET, data)


def prepare(paths: Inputs, seed: int) -> Path:
    return paths["table"]


def work(folder: Path) -> list[Coverage]:
    return compute(STORED, folder, RUNS)


def judge(folder: Path, runs: list[Coverage]) -> Judgement:
    """Shares of marginals whose bounds hold, over all runs, and medians over the runs of their medians."""
    supported, others = sum(run.supported for run in runs), sum(run.others for run in runs)
    held = [run.supported_covered + run.others_covered for run in runs]
    asked = [run.supported + run.others for run in runs]
    return Judgement(
        error={"mean": float(np.mean([run.error for run in runs]))},
        facts={
            "runs": len(runs),
            "coverage": sum(held) / sum(asked),
            "coverage, worst run": min(of / all_ for of, all_ in zip(held, asked, strict=True)),
            "coverage, supported": sum(run.supported_covered for run in runs) / supported,
            "coverage, others": sum(run.others_covered for run in runs) / others,
            "coverage of cells": float(np.mean([run.cells_covered for run in runs])),
            "supported a run": supported / len(runs),
            "bound over error, supported": float(np.median([run.supported_ratio for run in runs])),
            "bound over error, others": float(np.median([run.others_ratio for run in runs])),
            "release_cpu_seconds": float(np.mean([run.cpu_seconds for run in runs])),
            "bounds_cpu_seconds": float(np.mean([run.bounds_cpu_seconds for run in runs])),
        },
    )


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


CASE = Case(
    params={
        "dataset": f"tabular/{DATASET}", "workload": "all 3-way marginals", "mechanism": "aim", "settings": SETTINGS,
        "epsilon": EPSILON, "delta": DELTA, "neighbours": "add or remove one unit, n private",
        "confidence": CONFIDENCE, "runs": RUNS, "results": "bounds/adult.json",
        "published": "on Fire: all bounds hold; bound over error 4.4 supported, 8.3 others (medians)",
    },
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("runs", "==", RUNS, functools.partial(_fact, "runs")),
        *(
            Target(f"{part} of bounds that hold", ">=", CONFIDENCE, functools.partial(_fact, name))
            for part, name in (
                ("share", "coverage"), ("share, worst run,", "coverage, worst run"),
                ("share, supported,", "coverage, supported"), ("share, others,", "coverage, others"),
            )
        ),
        Target("share of cells in their intervals", ">=", CONFIDENCE, functools.partial(_fact, "coverage of cells")),
    ),
    cold=False,
)  # fmt: skip
