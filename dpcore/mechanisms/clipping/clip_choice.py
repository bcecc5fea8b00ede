"""How far to clip what one unit adds: chosen from a noisy histogram of how many queries units satisfy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import GRID_BITS, Measurement, Noise
from dpcore.queries import ClippedSums
from dpcore.uncertainty import half_width

_SIGNIFICANT = 2.0  # Cells with fewer standard deviations than this count as empty where a clip is chosen.
_STEPS_OF_TWO = 4  # Candidates are multiples of 2^(1/4).
_LEFT = 0.3  # Of a small loss after its expectation is added: .1 to .5 on five datasets.


@dataclass(frozen=True)
class Choice:
    """A clip norm with what it is predicted to cost, in counts.

    error: Predicted largest error, noise and loss together.
    """

    clip: float
    error: float


def choose_clip(
    cells: NDArray[np.float64],
    queries: int,
    unit_stddev: float,
    noise_factor: float,
    top_part: float,
    norm: int,
    *,
    completed: bool = False,
) -> Choice:
    """The norm C with the least predicted noise_factor * C * unit_stddev + loss of the query that loses most.

    cells: float64, noisy units by how many queries they satisfy; 0, then powers of two (``SatisfactionHistogram``).
        Cells that are not significant are 0.
    queries: How many queries are clipped together.
    unit_stddev: Noise of an answer at C = 1.
    top_part: Largest part that one query is predicted to have in all answers together: a unit that satisfies k queries
        then satisfies this one with chance min(1, k top_part), at most.
    norm: 2 for the Euclidean norm, 1 for the sum.
    completed: Whether the expected loss will be added to the answers, so that only a part of it counts: 3 in 10, or the
        part of the answer that is lost where that is more, because what is lost is expected from what is left.
    """
    largest = min(_upper_edge(int(np.flatnonzero(cells[1:] > 0)[-1]) + 1), queries) if (cells[1:] > 0).any() else 1
    clips = 2.0 ** (np.arange(0, _STEPS_OF_TWO * math.log2(largest) / norm + 1) / _STEPS_OF_TWO)
    inside = np.minimum(points_inside(len(cells)), queries)
    weights = np.minimum(1.0, clips[:, None, None] / inside ** (1 / norm))
    lost = (np.minimum(1.0, inside * top_part) * (1 - weights)).mean(axis=2)
    loss = lost @ cells[1:]
    if completed:
        answer = np.minimum(1.0, inside * top_part).mean(axis=1) @ cells[1:]
        loss = loss * np.maximum(_LEFT, loss / max(answer, 1.0))
    errors = noise_factor * clips * unit_stddev + loss
    best = int(errors.argmin())
    return Choice(float(clips[best]), float(errors[best]))


def significant(cells: NDArray[np.float64], stddev: float, deviations: float = _SIGNIFICANT) -> NDArray[np.float64]:
    """Cells below so many standard deviations become 0: many empty cells would otherwise add up to heavy units."""
    return np.where(cells >= deviations * stddev, cells, 0.0)


def mean_satisfied(cells: NDArray[np.float64], queries: int) -> float:
    """Sum over units of how many queries each satisfies, divided by the queries: the mean answer, in counts."""
    return float(cells @ np.minimum(_middles(len(cells)), queries)) / queries


def loss_bound(measured: Measurement, cells: NDArray[np.float64], sums: ClippedSums, confidence: float) -> float:
    """A number of counts that no clipped answer loses more than, with this probability over the histogram's noise.

    It holds for the set of queries and the clip that ``choose_clip`` took by the same noise: sets and clips whose heavy
    units look too few are the ones that get chosen, so the bound holds for all that could be at once.

    measured: The histogram that ``cells`` are part of, not cleaned; cells: those of the units that ``sums`` clips.

    A query loses the sum of 1 - w over the units that satisfy it, at most that over all units. Each unit counts with
    the weight at the upper edge of its cell, where it is least. The discrete Gaussian is sub-Gaussian (Canonne, Kamath
    and Steinke 2020, Corollary 17), so is the rounded one but for half a step of its grid, and sums keep that: a
    weighted sum passes sigma |w|_2 (2 ln(1 / alpha))^(1/2) with chance alpha at most, where alpha is shared out among
    all candidates. Laplace: an interval for each cell of all sets.
    """
    edges = np.array([min(_upper_edge(cell), sums.queries.size) for cell in range(len(cells))])
    lost = 1.0 - sums.weights[0][edges] / sums.denominator
    lost[0] = 0.0
    if not lost.any():
        return 0.0
    all_cells = len(measured.values)
    if measured.noise is Noise.LAPLACE:
        slack = half_width(measured.noise, measured.scale, 1 - (1 - confidence) / all_cells) * lost.sum()
    else:
        candidates = _STEPS_OF_TWO * all_cells  # A set has fewer clips than 4 for each of its cells.
        tail = math.sqrt(2.0 * math.log(candidates / (1.0 - confidence)))
        slack = tail * measured.scale * math.sqrt(float(lost @ lost)) + 2.0 ** -(GRID_BITS + 1) * float(lost.sum())
    return float(max(0.0, float(cells @ lost) + slack))


def _upper_edge(cell: int) -> int:
    return (1 << cell) - 1


def points_inside(cells: int) -> NDArray[np.float64]:
    """Four points of each cell but the first, evenly spaced in the logarithm; float64 [cells - 1, 4]."""
    lower = np.arange(cells - 1)[:, None] + (np.arange(4) + 0.5) / 4
    points = 2.0**lower
    points[:1] = 1.0
    return np.asarray(points)


def _middles(cells: int) -> NDArray[np.float64]:
    """Geometric means of the ends of each cell; 0 for the first."""
    exponents = np.arange(cells)
    return np.sqrt(2.0 ** np.maximum(exponents - 1, 0) * (2.0**exponents - 1))
