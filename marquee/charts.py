"""Charts of marginals, with matplotlib: bars with their intervals for one attribute, a heat map for two."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcore.errors import ConfigError
from marquee.cross_table import Table
from marquee.intervals import count

_FEW_CELLS = 150  # So many cells of a heat map have their number written on them.


def chart(table: Table, axes: Any = None) -> Any:
    """Draws a marginal.

    table: A table of one or two attributes.
    axes: The axes of matplotlib to draw on; new ones by default.

    Returns: The axes.
    Raises: ConfigError when there are more attributes, or matplotlib is not installed.
    """
    if len(table.names) > 2:
        raise ConfigError(f"a chart has {len(table.names)} attributes; want one or two, or table() for more")
    pyplot = _pyplot()
    if axes is None:
        _, axes = pyplot.subplots(layout="constrained")
    (_bars if len(table.names) == 1 else _heat_map)(table, axes)
    return axes


def _bars(table: Table, axes: Any) -> None:
    whole = table.counts.whole
    (name,), (labels,) = whole.attributes, whole.labels
    answer, lower, upper = whole.answer, whole.lower, whole.upper
    places = np.arange(len(labels))
    axes.bar(places, answer, color="#4c72b0")
    known = ~(np.isnan(lower) | np.isnan(upper))
    if known.any():
        ends = np.maximum(0.0, [(answer - lower)[known], (upper - answer)[known]])
        axes.errorbar(places[known], answer[known], yerr=ends, fmt="none", ecolor="black", capsize=3)
    axes.set_xticks(places, labels, rotation=30, ha="right")
    axes.set_xlabel(name)
    axes.set_ylabel("count, with 95 % intervals" if known.any() else "count")


def _heat_map(table: Table, axes: Any) -> None:
    (rows, columns), answer = table.counts.whole.labels, table.counts.whole.answer
    image = axes.imshow(answer, aspect="auto", cmap="viridis")
    axes.set_xticks(np.arange(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(np.arange(len(rows)), rows)
    axes.set_xlabel(table.names[1])
    axes.set_ylabel(table.names[0])
    axes.figure.colorbar(image, ax=axes, label="count")
    if answer.size <= _FEW_CELLS:
        middle = (answer.max() + answer.min()) / 2
        for (row, column), value in np.ndenumerate(answer):
            colour = "black" if value > middle else "white"
            axes.text(column, row, count(float(value)), ha="center", va="center", color=colour, fontsize="small")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ConfigError("charts need matplotlib, which is not installed; want pip install marquee[report]") from error
    return plt
