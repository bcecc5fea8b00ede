"""Raking: expected counts of a table whose row sums are rounded already, with margins close to the unrounded ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.graphical.sampling.cell_offsets import Offsets
from dpcore.estimation.graphical.sampling.rounding import MarginCells

_SWEEPS = 4
_MIN_ROW_COUNT = 4.0  # Counts are moved only within rows with at least this expected count.
_MIN_MARGIN_MASS = 8.0  # Only errors of margin cells with at least this mass (``_add_masses``) are moved.


class ConditionalView(NamedTuple):
    """p(column | row), read from a table of any memory layout: values[rows of i + columns of j] / sums[i].

    values: float64 [cells].
    sums: Sum of each row, float64 [rows]; 1 for a row of zeros.
    rows: Offset of each row in the values, int64.
    columns: Offset of each column relative to its row, int64.
    """

    values: NDArray[np.float64]
    sums: NDArray[np.float64]
    rows: Offsets
    columns: Offsets


def expected_rows(
    model_counts: NDArray[np.float64],
    totals: NDArray[np.int64],
    means: NDArray[np.float64],
    conditional: ConditionalView,
    margin_cells: MarginCells,
) -> NDArray[np.float64]:
    """Expected counts given that row i has totals[i]: float64 [rows, columns], >= 0, with row sums ``totals``.

    model_counts: The model's expected counts, units * p, float64 [rows, columns]; overwritten by the result.
    totals: Rounded count of each row, int64 [rows].
    means: The model's expected count of each row, of which ``totals`` is a rounding; float64 [rows].
    conditional: p(column | row): row i of ``model_counts`` is means[i] times its row i. Each row sums to 1, or to 0 if
        its total is 0.
    margin_cells: The margins to keep close. The offsets of ``conditional`` have the same widths.

    The counts totals[i] * conditional[i] would pass the rounding errors of ``totals`` on to the columns, and from there
    to the next node. So a few sweeps over the margins move the excess of each margin cell to other cells of the same
    rows, in proportion to ``model_counts``. Every step is linear in the errors, with public weights, and the errors
    have mean 0; so the moved counts have mean 0 as well, and the mean of the result stays ``model_counts``. Only rows
    and margin cells with large enough counts take part. A cell that would still fall below 0 is set to 0, and its row
    is scaled when it is rounded.
    """
    if len(totals) > 1:  # A root has one row, and nothing is rounded yet.
        _spread(model_counts, totals, conditional)
        _rake(model_counts, means, conditional, margin_cells)
    return model_counts


@compiled
def _spread(expected: NDArray[np.float64], totals: NDArray[np.int64], conditional: ConditionalView) -> None:
    """Sets every cell to totals[i] * conditional[i, j]."""
    i = 0
    for row_high in conditional.rows.high[:, 0]:
        for row_low in conditional.rows.low[:, 0]:
            j = 0
            for high in conditional.columns.high[:, 0]:
                start = row_high + row_low + high
                for low in conditional.columns.low[:, 0]:
                    expected[i, j] = totals[i] * (conditional.values[start + low] / conditional.sums[i])
                    j += 1
            i += 1


@compiled
def _rake(
    expected: NDArray[np.float64], means: NDArray[np.float64], conditional: ConditionalView, margin_cells: MarginCells
) -> None:
    """Moves counts of ``expected`` within rows, in place, until its margins are close to those of the model."""
    margins = margin_cells.starts.size - 1
    masses = np.zeros(margin_cells.starts[-1])
    for k in range(margins):
        _add_masses(means, conditional, margin_cells, k, masses[margin_cells.starts[k] : margin_cells.starts[k + 1]])
    for step in range(_SWEEPS * margins):
        k = step % margins
        _move(
            expected, means, conditional, margin_cells, k, masses[margin_cells.starts[k] : margin_cells.starts[k + 1]]
        )
    for i in range(expected.shape[0]):
        for j in range(expected.shape[1]):
            expected[i, j] = max(0.0, expected[i, j])


@compiled
def _move(
    expected: NDArray[np.float64],
    means: NDArray[np.float64],
    conditional: ConditionalView,
    margin_cells: MarginCells,
    k: int,
    masses: NDArray[np.float64],
) -> None:
    """Moves errors once, for margin k. masses: The result of ``_add_masses``."""
    values, from_high, from_low = (
        conditional.values,
        conditional.columns.high[:, 0].copy(),
        conditional.columns.low[:, 0].copy(),
    )
    to_high, to_low = margin_cells.columns.high[:, k].copy(), margin_cells.columns.low[:, k].copy()
    errors = np.zeros(masses.size)
    width = from_low.size
    i = 0
    for up in range(margin_cells.rows.high.shape[0]):
        for down in range(margin_cells.rows.low.shape[0]):
            start = conditional.rows.high[up, 0] + conditional.rows.low[down, 0]
            first_cell = margin_cells.rows.high[up, k] + margin_cells.rows.low[down, k] - margin_cells.starts[k]
            mean, total = means[i], conditional.sums[i]
            for above in range(from_high.size):
                cells = expected[i, above * width : (above + 1) * width]
                margin, row_values = errors[first_cell + to_high[above] :], values[start + from_high[above] :]
                for below in range(width):
                    margin[to_low[below]] += cells[below] - mean * (row_values[from_low[below]] / total)
            i += 1
    for cell in range(errors.size):
        errors[cell] = 0.5 * errors[cell] / masses[cell] if masses[cell] >= _MIN_MARGIN_MASS else 0.0
    i = 0
    for up in range(margin_cells.rows.high.shape[0]):
        for down in range(margin_cells.rows.low.shape[0]):
            mean, total = means[i], conditional.sums[i]
            if mean >= _MIN_ROW_COUNT:
                start = conditional.rows.high[up, 0] + conditional.rows.low[down, 0]
                first_cell = margin_cells.rows.high[up, k] + margin_cells.rows.low[down, k] - margin_cells.starts[k]
                moved = 0.0
                for above in range(from_high.size):
                    margin, row_values = errors[first_cell + to_high[above] :], values[start + from_high[above] :]
                    for below in range(width):
                        moved += row_values[from_low[below]] / total * margin[to_low[below]]
                for above in range(from_high.size):
                    cells = expected[i, above * width : (above + 1) * width]
                    margin, row_values = errors[first_cell + to_high[above] :], values[start + from_high[above] :]
                    for below in range(width):
                        cells[below] -= mean * (row_values[from_low[below]] / total) * (margin[to_low[below]] - moved)
            i += 1


@compiled
def _add_masses(
    means: NDArray[np.float64],
    conditional: ConditionalView,
    margin_cells: MarginCells,
    k: int,
    masses: NDArray[np.float64],
) -> None:
    """Adds the mass of each cell of margin k: the expected counts that may move into or out of the cell.

    A row of mean m with a share q in the margin cell contributes m q (1 - q). A step by half of error / mass never
    overshoots, because the matrix of the step is diagonally dominant.
    """
    from_high, from_low = conditional.columns.high[:, 0].copy(), conditional.columns.low[:, 0].copy()
    to_high, to_low = margin_cells.columns.high[:, k].copy(), margin_cells.columns.low[:, k].copy()
    shares = np.zeros(masses.size)
    i = 0
    for up in range(margin_cells.rows.high.shape[0]):
        for down in range(margin_cells.rows.low.shape[0]):
            mean, total = means[i], conditional.sums[i]
            if mean >= _MIN_ROW_COUNT:
                start = conditional.rows.high[up, 0] + conditional.rows.low[down, 0]
                first_cell = margin_cells.rows.high[up, k] + margin_cells.rows.low[down, k] - margin_cells.starts[k]
                for above in range(from_high.size):
                    margin, row_values = (
                        shares[first_cell + to_high[above] :],
                        conditional.values[start + from_high[above] :],
                    )
                    for below in range(from_low.size):
                        margin[to_low[below]] += row_values[from_low[below]] / total
                for above in to_high:
                    for below in to_low:
                        share = shares[first_cell + above + below]
                        masses[first_cell + above + below] += mean * share * max(0.0, 1.0 - share)
                        shares[first_cell + above + below] = 0.0
            i += 1
