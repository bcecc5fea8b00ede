"""The norm to clip a unit's answers to, from a noisy histogram of how many queries units satisfy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import GRID_BITS, Measurement, Noise
from dpcore.queries import ClippedSums
from dpcore.uncertainty import half_width

_SIGNIFICANT_DEVIATIONS = 2.0  # Cells below this many standard deviations count as empty when a clip is chosen.
_CLIPS_PER_OCTAVE = 4  # Candidate clips are powers of 2^(1/4).
# Fraction of a small clipping loss that remains after bias correction (0.1 to 0.5 on five datasets).
REMAINING_LOSS = 0.3


@dataclass(frozen=True)
class ClipChoice:
    """A clip norm.

    clip: The norm.
    error: Predicted largest error of an answer, from noise and loss together, in counts.
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
) -> ClipChoice:
    """The norm C that minimises the predicted error noise_factor * C * unit_stddev + loss of the most affected query.

    cells: float64 [cells], noisy numbers of units by how many queries they satisfy: 0, then between powers of two
        (``SatisfactionHistogram``). Cells that are not significant are 0.
    queries: Number of queries that are clipped together.
    unit_stddev: Standard deviation of an answer's noise at C = 1, in counts.
    noise_factor: Predicted largest error from noise, in standard deviations.
    top_part: Largest fraction that one query is predicted to have of the sum of all answers. A unit that satisfies k
        queries then satisfies this one with probability at most min(1, k top_part).
    norm: 2 for the Euclidean norm, 1 for the sum.
    completed: Whether the expected loss will be added to the answers. Then only a fraction of the loss counts: three
        tenths, or the lost fraction of the answer if that is more, because the loss is estimated from what remains.
    """
    occupied = np.flatnonzero(cells[1:] > 0) + 1
    most_satisfied = min(_upper_edge(int(occupied[-1])), queries) if occupied.size else 1
    clips = 2.0 ** (np.arange(0, _CLIPS_PER_OCTAVE * math.log2(most_satisfied) / norm + 1) / _CLIPS_PER_OCTAVE)
    satisfied = np.minimum(points_of_cells(len(cells)), queries)
    weights = np.minimum(1.0, clips[:, None, None] / satisfied ** (1 / norm))
    probabilities = np.minimum(1.0, satisfied * top_part)
    loss = (probabilities * (1 - weights)).mean(axis=2) @ cells[1:]
    if completed:
        answer = probabilities.mean(axis=1) @ cells[1:]
        loss = loss * np.maximum(REMAINING_LOSS, loss / max(answer, 1.0))
    errors = noise_factor * clips * unit_stddev + loss
    best = int(errors.argmin())
    return ClipChoice(float(clips[best]), float(errors[best]))


def largest_clip(queries: int, norm: int) -> float:
    """An upper bound on the norm that ``choose_clip`` returns for this number of queries, in this norm."""
    return float(2.0 ** (math.log2(max(queries, 1)) / norm + 1 / _CLIPS_PER_OCTAVE))


def significant(
    cells: NDArray[np.float64], stddev: float, deviations: float = _SIGNIFICANT_DEVIATIONS
) -> NDArray[np.float64]:
    """The cells, with 0 for each below ``deviations`` standard deviations.

    Otherwise the noise in many empty cells would look like heavy units.
    """
    return np.where(cells >= deviations * stddev, cells, 0.0)


def mean_satisfied(cells: NDArray[np.float64], queries: int) -> float:
    """The mean answer, in counts: the number of satisfied queries, summed over units, per query."""
    return float(cells @ np.minimum(_midpoints(len(cells)), queries)) / queries


def loss_bound(measured: Measurement, cells: NDArray[np.float64], sums: ClippedSums, confidence: float) -> float:
    """An upper bound on the loss of every clipped answer, in counts, at a confidence over the noise of the histogram.

    measured: The histogram of all sets of queries.
    cells: The cells of ``measured``, not cleaned, for the set of queries that ``sums`` clips.
    sums: The clipped sums.
    confidence: Probability with which the bound holds.

    The set of queries and the clip were chosen by the noise of the same histogram, which prefers sets and clips whose
    heavy units look too few. The bound therefore holds for all possible choices at once.

    A query loses the sum of 1 - w over the units that satisfy it, which is at most the sum over all units. Each unit
    counts with the weight w at the upper edge of its cell, where w is smallest. The discrete Gaussian is sub-Gaussian
    (Canonne, Kamath and Steinke 2020, Corollary 17); the rounded one is too, apart from half a step of its grid; and so
    are sums of them. A weighted sum therefore exceeds sigma |w|_2 (2 ln(1 / alpha))^(1/2) with probability at most
    alpha, which is divided among all possible choices. For Laplace noise the bound uses simultaneous intervals of all
    cells of all sets.
    """
    lost = 1.0 - sums.weights[0] / sums.denominator
    return loss_bound_of(measured, cells, lost, sums.queries.size, confidence)


def loss_bound_of(
    measured: Measurement, cells: NDArray[np.float64], lost_by: NDArray[np.float64], queries: int, confidence: float
) -> float:
    """``loss_bound`` for one group of clipped sums.

    measured: The histogram of all sets or groups of queries.
    cells: Its cells, not cleaned, for this group.
    lost_by: float64 [queries + 1 or more], the fraction of each count that a unit loses by the number of the group's
        queries that it satisfies; ascending. The first one is not used.
    queries: The number of queries of the group.
    confidence: Probability with which the bound holds.
    """
    upper_edges = np.array([min(_upper_edge(cell), queries) for cell in range(len(cells))])
    lost = lost_by[upper_edges]
    lost[0] = 0.0
    if not lost.any():
        return 0.0
    all_cells = len(measured.values)
    if measured.noise is Noise.LAPLACE:
        slack = half_width(measured.noise, measured.scale, 1 - (1 - confidence) / all_cells) * lost.sum()
    else:
        candidates = _CLIPS_PER_OCTAVE * all_cells  # A set has fewer than 4 candidate clips per cell.
        tail = math.sqrt(2.0 * math.log(candidates / (1.0 - confidence)))
        slack = tail * measured.scale * math.sqrt(float(lost @ lost)) + 2.0 ** -(GRID_BITS + 1) * float(lost.sum())
    return float(max(0.0, float(cells @ lost) + slack))


def _upper_edge(cell: int) -> int:
    """The largest number of satisfied queries in a cell."""
    return (1 << cell) - 1


def points_of_cells(cells: int) -> NDArray[np.float64]:
    """Four numbers of satisfied queries in each cell but the first, evenly spaced in log; float64 [cells - 1, 4]."""
    exponents = np.arange(cells - 1)[:, None] + (np.arange(4) + 0.5) / 4
    points = 2.0**exponents
    points[:1] = 1.0
    return np.asarray(points)


def _midpoints(cells: int) -> NDArray[np.float64]:
    """Geometric means of the smallest and largest number in each cell, float64 [cells]; 0 for the first cell."""
    exponents = np.arange(cells)
    return np.sqrt(2.0 ** np.maximum(exponents - 1, 0) * (2.0**exponents - 1))
