"""Expected counts of a table whose rows are rounded already, with margins as if they were not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.graphical.sampling.cell_offsets import Offsets
from dpcore.estimation.graphical.sampling.rounding import MarginCells

_SWEEPS = 4
_HEAVY_ROW = 4.0  # Expected counts of a row, and those that may move within a place, from which on errors are moved.
_HEAVY_PLACE = 8.0


class Chances(NamedTuple):
    """p(column | row), read from a table of any layout: values[rows of i + columns of j] / sums[i].

    values: float64 [cells].
    sums: float64 [rows]; 1 where a row of values is 0.
    rows, columns: int64, one position each.
    """

    values: NDArray[np.float64]
    sums: NDArray[np.float64]
    rows: Offsets
    columns: Offsets


def expected_rows(
    wanted: NDArray[np.float64],
    totals: NDArray[np.int64],
    means: NDArray[np.float64],
    chances: Chances,
    places: MarginCells,
) -> NDArray[np.float64]:
    """Expected counts given that row i has totals[i]: float64 [rows, columns], non-negative, each row of that sum.

    wanted: The model's counts, units * p, float64 [rows, columns]. Given away: what is returned takes their place.
    means: float64 [rows], the sums of ``wanted``, of which ``totals`` are roundings.
    chances: ``wanted`` is means[i] times these; each row sums to 1, or to 0 where its total is 0.
    places: Of the margins to keep close. The offsets of ``chances`` have the same widths.

    totals[i] * chances[i] alone would pass the rounding errors of ``totals`` on to the columns, and from there to the
    next node. So a few sweeps over the margins move what is too much in a place from it, in proportion to ``wanted``
    and within rows. Every step is linear in the errors with public weights, and these have mean 0: so does what is
    moved, and the mean stays ``wanted``. Only rows and places of some expected counts take part; where a cell would
    fall below 0 all the same, it becomes 0 and its row is scaled.
    """
    if len(totals) > 1:  # Else a root: nothing is rounded yet.
        _spread(wanted, totals, chances)
        _rake(wanted, means, chances, places)
    return wanted


@compiled
def _spread(expected: NDArray[np.float64], totals: NDArray[np.int64], chances: Chances) -> None:
    """totals[i] * chances[i, j] into every cell."""
    i = 0
    for row_high in chances.rows.high[:, 0]:
        for row_low in chances.rows.low[:, 0]:
            j = 0
            for high in chances.columns.high[:, 0]:
                start = row_high + row_low + high
                for low in chances.columns.low[:, 0]:
                    expected[i, j] = totals[i] * (chances.values[start + low] / chances.sums[i])
                    j += 1
            i += 1


@compiled
def _rake(expected: NDArray[np.float64], means: NDArray[np.float64], chances: Chances, places: MarginCells) -> None:
    """Moves ``expected`` within rows, in place, until the margins are nearly those of means[i] * chances[i, j]."""
    margins = places.starts.size - 1
    masses = np.zeros(places.starts[-1])
    for k in range(margins):
        _add_masses(means, chances, places, k, masses[places.starts[k] : places.starts[k + 1]])
    for step in range(_SWEEPS * margins):
        k = step % margins
        _move(expected, means, chances, places, k, masses[places.starts[k] : places.starts[k + 1]])
    for i in range(expected.shape[0]):
        for j in range(expected.shape[1]):
            expected[i, j] = max(0.0, expected[i, j])


@compiled
def _move(
    expected: NDArray[np.float64],
    means: NDArray[np.float64],
    chances: Chances,
    places: MarginCells,
    k: int,
    masses: NDArray[np.float64],
) -> None:
    """One step, for margin k."""
    values, from_high, from_low = chances.values, chances.columns.high[:, 0].copy(), chances.columns.low[:, 0].copy()
    to_high, to_low = places.columns.high[:, k].copy(), places.columns.low[:, k].copy()
    errors = np.zeros(masses.size)
    width = from_low.size
    i = 0
    for up in range(places.rows.high.shape[0]):
        for down in range(places.rows.low.shape[0]):
            start = chances.rows.high[up, 0] + chances.rows.low[down, 0]
            place = places.rows.high[up, k] + places.rows.low[down, k] - places.starts[k]
            mean, total = means[i], chances.sums[i]
            for above in range(from_high.size):
                cells = expected[i, above * width : (above + 1) * width]
                found, read = errors[place + to_high[above] :], values[start + from_high[above] :]
                for below in range(width):
                    found[to_low[below]] += cells[below] - mean * (read[from_low[below]] / total)
            i += 1
    for cell in range(errors.size):
        errors[cell] = 0.5 * errors[cell] / masses[cell] if masses[cell] >= _HEAVY_PLACE else 0.0
    i = 0
    for up in range(places.rows.high.shape[0]):
        for down in range(places.rows.low.shape[0]):
            mean, total = means[i], chances.sums[i]
            if mean >= _HEAVY_ROW:
                start = chances.rows.high[up, 0] + chances.rows.low[down, 0]
                place = places.rows.high[up, k] + places.rows.low[down, k] - places.starts[k]
                moved = 0.0
                for above in range(from_high.size):
                    found, read = errors[place + to_high[above] :], values[start + from_high[above] :]
                    for below in range(width):
                        moved += read[from_low[below]] / total * found[to_low[below]]
                for above in range(from_high.size):
                    cells = expected[i, above * width : (above + 1) * width]
                    found, read = errors[place + to_high[above] :], values[start + from_high[above] :]
                    for below in range(width):
                        cells[below] -= mean * (read[from_low[below]] / total) * (found[to_low[below]] - moved)
            i += 1


@compiled
def _add_masses(
    means: NDArray[np.float64], chances: Chances, places: MarginCells, k: int, masses: NDArray[np.float64]
) -> None:
    """Expected counts that may move into or out of each place of margin k: m q (1 - q) for a row of mean m with a part
    q in it.

    A step of half an error over its mass never overshoots: the matrix of the step is diagonally dominant.
    """
    from_high, from_low = chances.columns.high[:, 0].copy(), chances.columns.low[:, 0].copy()
    to_high, to_low = places.columns.high[:, k].copy(), places.columns.low[:, k].copy()
    parts = np.zeros(masses.size)
    i = 0
    for up in range(places.rows.high.shape[0]):
        for down in range(places.rows.low.shape[0]):
            mean, total = means[i], chances.sums[i]
            if mean >= _HEAVY_ROW:
                start = chances.rows.high[up, 0] + chances.rows.low[down, 0]
                place = places.rows.high[up, k] + places.rows.low[down, k] - places.starts[k]
                for above in range(from_high.size):
                    found, read = parts[place + to_high[above] :], chances.values[start + from_high[above] :]
                    for below in range(from_low.size):
                        found[to_low[below]] += read[from_low[below]] / total
                for above in to_high:
                    for below in to_low:
                        part = parts[place + above + below]
                        masses[place + above + below] += mean * part * max(0.0, 1.0 - part)
                        parts[place + above + below] = 0.0
            i += 1
