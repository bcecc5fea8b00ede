"""Stored settings as SVG: workload error over epsilon, in the style of Figures 5.1 to 5.3 of the thesis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.benchmarks.figures.plots import STYLE, plain_digits
from tests.benchmarks.graphical.cells import Cell

# Dotted, as the thesis draws what does not look at the workload.
_AGNOSTIC: Final = ("independent", "mst", "priv_bayes", "priv_bayes_pgm")
_FIRST: Final = ("aim", "mwem_pgm", "mst", "priv_bayes_pgm", "independent", "gaussian")  # Their colours stay.
_COLUMNS, _WIDTH, _HEIGHT = 2, 3.4, 2.8


def draw(workload: str, cells: Sequence[Cell], path: Path) -> None:
    """A plot a dataset; bars from the smallest to the largest error of the runs."""
    names = list(dict.fromkeys(cell.dataset for cell in cells))
    lines = -(-len(names) // _COLUMNS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH * _COLUMNS, _HEIGHT * lines + 0.8), layout="constrained")
        plots = figure.subplots(lines, _COLUMNS, squeeze=False).ravel()
        colours = _colours(cells)
        for axes, name in zip(plots, names, strict=False):
            _plot(axes, [cell for cell in cells if cell.dataset == name and cell.runs], colours)
            axes.set(title=name, xlabel="epsilon", ylabel="workload error", xscale="log", yscale="log")
            plain_digits(axes.xaxis)
            plain_digits(axes.yaxis)
            axes.grid(visible=True, linewidth=0.3)
        for axes in plots[len(names) :]:
            axes.set_visible(False)
        shown = {label: line for axes in plots for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(workload)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _plot(axes: Axes, cells: Sequence[Cell], colours: dict[str, str]) -> None:
    for name in colours:
        line = sorted((cell for cell in cells if cell.mechanism == name), key=lambda cell: cell.epsilon)
        if not line:
            continue
        errors = [[run.mean for run in cell.runs] for cell in line]
        # A mean of equal errors may differ from them in its last bit.
        below = [max(0.0, cell.error - min(found)) for cell, found in zip(line, errors, strict=True)]
        above = [max(0.0, max(found) - cell.error) for cell, found in zip(line, errors, strict=True)]
        axes.errorbar(
            [cell.epsilon for cell in line],
            [cell.error for cell in line],
            yerr=[below, above],
            color=colours[name],
            linestyle=":" if name in _AGNOSTIC else "-",
            marker=".",
            linewidth=1.2,
            capsize=2,
            label=name,
        )


def _colours(cells: Sequence[Cell]) -> dict[str, str]:
    """A colour a mechanism that was run; those of the thesis first."""
    present = sorted({cell.mechanism for cell in cells if cell.runs})
    ordered = [*(name for name in _FIRST if name in present), *(name for name in present if name not in _FIRST)]
    map_ = mpl.colormaps["tab20"]
    return {name: mpl.colors.to_hex(map_(place % 20)) for place, name in enumerate(ordered)}
