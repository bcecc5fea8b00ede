"""Stored panels as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from tests.benchmarks.figures.points import BASELINE, MEASURED, PUBLISHED, Point, point_of
from tests.benchmarks.figures.tables import names

# Text stays text, and nothing in a file depends on the day or on luck: a plot changes only where its points do.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "figures", "font.size": 8.0}
# A series has one colour in every plot.
_COLOURS = {
    "dual_query": "C0", "dual_query (paper)": "C9", "dqrs": "C1", "fem": "C2", "sep_fem": "C8", "gaussian": "C4",
    "clipped_gaussian": "C3", "FEM, published": "black", "zeros": "0.7", "uniform": "0.4", "product": "C5",
}  # fmt: skip
_LINES = {MEASURED: "-", PUBLISHED: "--", BASELINE: ":"}
_WIDTH, _HEIGHT = 3.2, 3.4  # Inches of one plot.
_LABEL_ALL_BELOW = 1.0  # Decades of an axis that has too few powers of ten.


def draw(panel: Mapping[str, Any], path: Path) -> None:
    """Largest and mean error, and the CPU seconds where the paper shows runtimes, as one SVG."""
    points = [point_of(stored) for stored in panel["points"]]
    kinds = [("max", "largest error"), ("mean", "mean error")]
    if panel["runtime"]:
        kinds.append(("cpu_seconds", "CPU seconds of a run"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH * len(kinds), _HEIGHT), layout="constrained")
        plots = figure.subplots(1, len(kinds))
        for axes, (field, label) in zip(plots, kinds, strict=True):
            _plot(axes, points, field)
            axes.set(xlabel=panel["x"], ylabel=label, yscale="log")
            plain_digits(axes.yaxis)
            if panel["logarithmic"]:
                axes.set_xscale("log")
                plain_digits(axes.xaxis)
            axes.grid(visible=True, linewidth=0.3)
        handles, labels = plots[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(panel["title"])
        figure.savefig(path, format="svg", metadata={"Date": None})


def plain_digits(axis: Axis) -> None:
    """Of a logarithmic axis: 0.01 takes a tenth of the bytes and the time of a typeset power of ten."""
    axis.set_major_formatter(FuncFormatter(_digits))
    axis.set_minor_formatter(FuncFormatter(_digits) if _decades(axis) < _LABEL_ALL_BELOW else NullFormatter())


def _decades(axis: Axis) -> float:
    low, high = axis.get_view_interval()
    return math.log10(high / low)


def _digits(value: float, position: int | None = None) -> str:
    return f"{value:,.6g}"


def _plot(axes: Axes, points: Sequence[Point], field: str) -> None:
    """A line a series; a baseline of one point is a level."""
    for number, name in enumerate(names(points)):
        line = sorted((point for point in points if point.series == name), key=lambda point: point.x)
        shown = [(point.x, getattr(point, field)) for point in line if getattr(point, field)]
        if not shown:
            continue
        style = {
            "color": _COLOURS.get(name, f"C{number}"),
            "linestyle": _LINES[line[0].kind],
            "label": name,
            "linewidth": 1.2,
        }
        if line[0].kind == BASELINE and len(shown) == 1:
            axes.axhline(shown[0][1], **style)
        else:
            axes.plot(*zip(*shown, strict=True), marker="." if line[0].kind != BASELINE else "", **style)
