"""Expected counts of a table whose rows are rounded already, with margins as if they were not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.pgm.rounding import Places

_SWEEPS = 4
_HEAVY_ROW = 4.0  # Expected counts of a row, and those that may move within a place, from which on errors are moved.
_HEAVY_PLACE = 8.0


def expected_rows(
    chances: NDArray[np.float64],
    wanted: NDArray[np.float64],
    totals: NDArray[np.int64],
    places: Places,
) -> NDArray[np.float64]:
    """Expected counts given that row i has totals[i]: float64 [rows, columns], non-negative, each row of that sum.

    chances: float64 [rows, columns]; each row sums to 1, or to 0 where its total is 0.
    wanted: The model's counts, units * p, of the same shape.
    places: Of the margins to keep close.

    totals[i] * chances[i] alone would pass the rounding errors of ``totals`` on to the columns, and from there to the
    next node. So a few sweeps over the margins move what is too much in a place from it, in proportion to ``wanted``
    and within rows. Every step is linear in the errors with public weights, and these have mean 0: so does what is
    moved, and the mean stays ``wanted``. Only rows and places of some expected counts take part; where a cell would
    fall below 0 all the same, it becomes 0 and its row is scaled.
    """
    if len(totals) == 1:  # A root: nothing is rounded yet.
        return wanted
    expected = totals[:, None] * chances
    _rake(expected, chances, wanted, *places)
    return expected


@compiled
def _rake(
    expected: NDArray[np.float64],
    chances: NDArray[np.float64],
    wanted: NDArray[np.float64],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    starts: NDArray[np.int64],
) -> None:
    """Moves ``expected`` within rows, in place, until the margins are nearly those of ``wanted``."""
    means = wanted.sum(axis=1)
    masses = _masses(chances, means, rows, columns, starts[-1])
    errors = np.zeros(starts[-1])
    for step in range(_SWEEPS * rows.shape[1]):
        k = step % rows.shape[1]
        errors[starts[k] : starts[k + 1]] = 0.0
        for i in range(rows.shape[0]):
            for j in range(columns.shape[0]):
                errors[rows[i, k] + columns[j, k]] += expected[i, j] - wanted[i, j]
        for place in range(starts[k], starts[k + 1]):
            errors[place] = 0.5 * errors[place] / masses[place] if masses[place] >= _HEAVY_PLACE else 0.0
        for i in range(rows.shape[0]):
            if means[i] >= _HEAVY_ROW:
                moved = 0.0
                for j in range(columns.shape[0]):
                    moved += chances[i, j] * errors[rows[i, k] + columns[j, k]]
                for j in range(columns.shape[0]):
                    expected[i, j] -= wanted[i, j] * (errors[rows[i, k] + columns[j, k]] - moved)
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            expected[i, j] = max(0.0, expected[i, j])


@compiled
def _masses(
    chances: NDArray[np.float64],
    means: NDArray[np.float64],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    places: int,
) -> NDArray[np.float64]:
    """Expected counts that may move into or out of each place: m q (1 - q) for a row of mean m with a part q in it.

    A step of half an error over its mass never overshoots: the matrix of the step is diagonally dominant.
    """
    masses = np.zeros(places)
    parts = np.zeros(places)
    for i in range(rows.shape[0]):
        if means[i] < _HEAVY_ROW:
            continue
        for k in range(rows.shape[1]):
            for j in range(columns.shape[0]):
                parts[rows[i, k] + columns[j, k]] += chances[i, j]
            for j in range(columns.shape[0]):
                place = rows[i, k] + columns[j, k]
                masses[place] += means[i] * parts[place] * max(0.0, 1.0 - parts[place])
                parts[place] = 0.0
    return masses
