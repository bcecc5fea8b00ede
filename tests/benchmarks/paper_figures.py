"""All panels of the papers' figures, each in its own process; `python -m tests.benchmarks.figures PANEL` makes one."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target, mean_cpu_seconds
from tests.benchmarks.figures.panel import ROOT, show, stored
from tests.benchmarks.figures.panels import PANELS
from tests.benchmarks.figures.points import BASELINE, Point, point_of
from tests.benchmarks.figures.published import SERIES as PUBLISHED_FEM
from tests.benchmarks.harness import FOLDER

RESULTS = FOLDER / "results"
Panels = Mapping[str, Sequence[Point]]


def inputs(data: Path) -> Inputs:
    """Of all panels together, each once."""
    found: dict[str, Path] = {}
    for panel in PANELS.values():
        for path in panel.inputs(data).values():
            found[f"{path.parent.name}/{path.name}"] = path
    return found


def prepare(paths: Inputs, seed: int) -> None:
    """Each panel opens its own inputs."""


def work(state: None) -> Panels:
    """Computes, stores and shows every panel. A panel that is done stays stored when a later one fails."""
    for name in PANELS:
        subprocess.run([sys.executable, "-m", "tests.benchmarks.figures", name], cwd=ROOT, check=True)
    show(RESULTS, tuple(PANELS))
    return {panel["panel"]: [point_of(point) for point in panel["points"]] for panel in stored(RESULTS, tuple(PANELS))}


def judge(state: None, panels: Panels) -> Judgement:
    """The errors of DualQuery on KDD99 at epsilon 1, and every panel's ratios that the targets are about."""
    kdd99 = panels["dual_2_kdd99"]
    (ours,) = (point for point in kdd99 if (point.series, point.x) == ("dual_query", 1.0))
    return Judgement(
        error=_figures(ours),
        baselines={point.series: _figures(point) for point in kdd99 if point.kind == BASELINE},
        facts={
            "panels": len(panels),
            "points": sum(len(points) for points in panels.values()),
            "dual_query_over_paper": largest_ratio(panels, "dual_2_", "dual_query", "dual_query (paper)"),
            "dual_query_over_product": largest_ratio(panels, "dual_2_kdd99", "dual_query", "product"),
            "fem_over_published": largest_ratio(panels, "fem_1_", "fem", PUBLISHED_FEM),
        },
    )


def largest_ratio(panels: Panels, beginning: str, series: str, other: str) -> float:
    """Over the panels and places where both are known, the largest ratio of the maximum errors of two series.

    A baseline that is one level stands at every place.
    """
    ratios = []
    for name, points in panels.items():
        if name.startswith(beginning):
            against = {point.x: point.max for point in points if point.series == other}
            levels = [point.max for point in points if (point.series, point.kind) == (other, BASELINE)]
            level = levels[0] if len(levels) == 1 else None
            for point in points:
                beside = against.get(point.x, level)
                if point.series == series and beside is not None:
                    ratios.append(point.max / beside)
    return max(ratios)


def _figures(point: Point) -> dict[str, Any]:
    return {"max": point.max, "mean": point.mean}


def _fact(name: str, runs: Sequence[Run]) -> float:
    return runs[0].facts[name]


CASE = Case(
    params={"results": "figures/*.json, figures/*.svg, FIGURES.md", "fractions_of": "units"},
    seeds=(1,),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("panels", "==", len(PANELS), functools.partial(_fact, "panels")),
        Target("CPU seconds", "<=", 2400.0, mean_cpu_seconds),
        Target(
            "Figure 2: largest error of DualQuery's defaults over that with the paper's settings, worst place",
            "<", 1.0, functools.partial(_fact, "dual_query_over_paper"),
        ),
        Target(
            "Figure 2, KDD99: the same over the product of exact one-way marginals",
            "<", 0.5, functools.partial(_fact, "dual_query_over_product"),
        ),
        Target(
            "FEM, Figure 1: largest error of untuned FEM over the published tuned one, worst place",
            "<", 1.0, functools.partial(_fact, "fem_over_published"),
        ),
    ),
    cold=False,
)  # fmt: skip
