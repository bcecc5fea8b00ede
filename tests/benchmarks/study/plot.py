"""The study as SVG: error of the recommended mechanism over the least, and the best mechanism by noise and model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.benchmarks.figures.plots import STYLE
from tests.benchmarks.study.comparison import Comparison
from tests.benchmarks.study.worker import CANDIDATES

_LARGEST_RATIO: Final = 10.0
_LARGEST_MODEL: Final = 1e30
_WIDTH, _HEIGHT = 8.0, 4.2


def draw(settings: Sequence[Comparison], path: Path) -> None:
    """One point per setting, in the colour of its best mechanism. Ratios above 10 are drawn at 10."""
    map_ = mpl.colormaps["tab10"]
    colours = {name: mpl.colors.to_hex(map_(place)) for place, name in enumerate(CANDIDATES)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        ratios, models = figure.subplots(1, 2)
        for name, colour in colours.items():
            group = [one for one in settings if one.best.mechanism == name]
            if group:
                _points(ratios, group, [_ratio(one) for one in group], colour, name)
                _points(models, group, [_model(one) for one in group], colour, name)
        ratios.set(title="recommended", ylabel="error over the least error", yscale="log")
        models.set(title="best mechanism", ylabel="cells of one model of the workload", yscale="log")
        for axes in (ratios, models):
            axes.set(xlabel="noise of a marginal over rows", xscale="log")
            axes.grid(visible=True, linewidth=0.3)
        handles, labels = models.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _points(axes: Axes, group: Sequence[Comparison], heights: Sequence[float], colour: str, name: str) -> None:
    noise = [float(one.facts["noise"]) for one in group]
    axes.plot(noise, heights, linestyle="", marker=".", color=colour, label=name)


def _ratio(setting: Comparison) -> float:
    return min(_LARGEST_RATIO, setting.ratio(str(setting.facts["recommended"])))


def _model(setting: Comparison) -> float:
    return min(_LARGEST_MODEL, float(setting.facts["model_cells"]))
