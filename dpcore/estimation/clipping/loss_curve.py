"""How much of a count clipping removes, learnt from how many queries units satisfy and from the measured total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.clipping.activity import activities
from dpcore.estimation.clipping.support import Support

_TAIL_DEVIATIONS = 3.5  # A cell is occupied if it and all cells above it exceed this many standard deviations together.
_TAIL_RATIO = 0.125  # Largest ratio of a cell above the last occupied one to the cell before it.
_TOTAL_ACCURACY = 0.03  # Relative error of the predicted total from the width of the cells.
_MIN_DEVIATION = 0.01  # In counts. Values without noise must have finite weights.
_TILTS = 3.0  # Range of the slope within cells.
_ROUNDS = 6
_MAX_SATISFIED = 0.9  # Largest fraction of the queries, of those with a positive prediction, that a unit satisfies.
_MIN_KEPT = 0.05  # The fraction of a count that remains is assumed to be at least this.


@dataclass(frozen=True, eq=False)
class Satisfied:
    """Units by the number of measured queries that they satisfy. Public.

    numbers: float64 [p], positive numbers of queries.
    units: float64 [p], the estimated number of units that satisfy each of them.
    lost: float64 [p], in [0, 1), the fraction of each count that such a unit loses by clipping.
    """

    numbers: NDArray[np.float64]
    units: NDArray[np.float64]
    lost: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Expected clipped answers of queries by their exact answers.

    counts: float64 [s], the points of a ``Support``.
    clipped: float64 [s], nondecreasing and at most ``counts``.
    """

    counts: NDArray[np.float64]
    clipped: NDArray[np.float64]

    def clipped_of(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The expected clipped answers of exact ones, linear between the points; float64 of the same shape."""
        return np.interp(counts, self.counts, self.clipped)

    def counts_of(self, clipped: NDArray[np.float64]) -> NDArray[np.float64]:
        """The exact answers whose clipped ones are expected to be these; 0 for negative ones."""
        return np.interp(np.maximum(clipped, 0.0), self.clipped, self.counts)

    def loss_of(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The counts that answers are expected to lose."""
        return np.maximum(counts - self.clipped_of(counts), 0.0)


def satisfied_units(
    cells: NDArray[np.float64],
    stddev: float,
    numbers: NDArray[np.float64],
    kept: NDArray[np.float64],
    total: float,
    total_stddev: float,
) -> Satisfied:
    """The units by the number of queries that they satisfy, from noisy cells and the noisy total of clipped answers.

    cells: float64 [c], noisy numbers of units in cells of growing numbers of satisfied queries; without that of 0.
    stddev: Standard deviation of the noise of a cell.
    numbers: float64 [c, 4], numbers of queries within each cell, in increasing order.
    kept: float64 [c, 4], the fraction of each count that remains of a unit that satisfies this number of queries.
    total: Sum of all measured answers: what all units together have after clipping.
    total_stddev: Standard deviation of the noise of the total.

    The cells are fitted by non-negative least squares to the noisy cells and the noisy total. From the largest cell to
    the last occupied one, units do not increase from cell to cell; above it, each cell has at most an eighth of the
    cell before it. Otherwise the noise in empty cells, whose units would satisfy thousands of queries, would add to
    every answer: at a half, each further cell could add as much to the loss as the one before. Within all cells, units
    are then shifted towards smaller or larger numbers, if the total asks for it.
    """
    from scipy.optimize import nnls  # Only where it is called: it is slow to import.

    stddev = max(stddev, _MIN_DEVIATION)
    total_error = max(float(np.hypot(total_stddev, _TOTAL_ACCURACY * abs(total))), _MIN_DEVIATION)
    shapes = _shapes(cells, stddev)
    mass = (numbers * kept).mean(axis=1)
    design = np.vstack([shapes / stddev, (mass @ shapes) / total_error])
    units = shapes @ nnls(design, np.append(cells / stddev, total / total_error))[0]
    weights = _weights_within(units, numbers * kept, total, 2 * total_stddev)
    spread = units[:, None] * weights
    used = spread > 0
    return Satisfied(numbers[used], spread[used], 1.0 - kept[used])


def _shapes(cells: NDArray[np.float64], stddev: float) -> NDArray[np.float64]:
    """Columns whose non-negative combinations are the allowed cells, float64 [c, c]."""
    count = cells.size
    tails = np.cumsum(cells[::-1])[::-1]
    occupied = np.flatnonzero(tails >= _TAIL_DEVIATIONS * stddev * np.sqrt(np.arange(count, 0, -1)))
    last = int(occupied[-1]) if occupied.size else 0
    largest = min(int(cells.argmax()), last)
    shapes = np.eye(count)
    for end in range(largest, count):
        height = 1.0
        for cell in range(end, largest - 1, -1):
            shapes[cell, end] = height
            height /= _TAIL_RATIO if cell > last else 1.0
    return shapes


def _weights_within(
    units: NDArray[np.float64], mass: NDArray[np.float64], total: float, slack: float
) -> NDArray[np.float64]:
    """Weights of the points of each cell, float64 [points], for which the total is within ``slack`` of the measured."""
    points = np.linspace(-1.0, 1.0, mass.shape[1])
    even = np.full(points.size, 1.0 / points.size)
    wanted = float(np.clip(units @ (mass @ even), total - slack, total + slack))
    if np.isclose(wanted, units @ (mass @ even)):
        return even
    low, high = -_TILTS, _TILTS
    for _ in range(40):
        middle = (low + high) / 2
        weights = np.exp(middle * points) / np.exp(middle * points).sum()
        low, high = (middle, high) if units @ (mass @ weights) < wanted else (low, middle)
    return np.asarray(weights)


def loss_curve(clipped: NDArray[np.float64], satisfied: Satisfied, support: Support) -> LossCurve:
    """The expected clipped answer for every point of the support.

    clipped: float64 [m], predicted clipped answers of all measured queries, in counts.
    satisfied: Units by how many of these queries they satisfy.
    support: The points.

    A unit that satisfies k queries is assumed to satisfy query q with probability 1 - exp(-s t_q), where t_q is the
    exact answer (``activity``). The exact answers that go with the clipped ones are found by
    iteration.
    """
    heavy = satisfied.lost > 0
    # No unit is taken to satisfy nearly all queries, because its share of a small answer could not be told.
    max_satisfied = _MAX_SATISFIED * np.count_nonzero(clipped > 0)
    numbers = np.minimum(satisfied.numbers[heavy], max_satisfied)
    lost_units = (satisfied.units * satisfied.lost)[heavy]
    if not heavy.any() or max_satisfied < 1:
        return LossCurve(support.points, support.points)
    answers = np.maximum(clipped, 0.0)
    answers = answers * (1 + float(numbers @ lost_units) / answers.sum())
    for _ in range(_ROUNDS):
        losses = -np.expm1(-activities(answers, numbers)[:, None] * support.points)
        remaining = np.maximum(support.points - lost_units @ losses, _MIN_KEPT * support.points)
        curve = LossCurve(support.points, np.maximum.accumulate(remaining))
        answers = np.sqrt(answers * curve.counts_of(clipped))  # The geometric mean does not oscillate.
    return curve
