"""What ``basket_mixture`` chooses from noisy numbers: the popular items, and the clip norm of each measurement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.mechanisms.clipping.clip_choice import REMAINING_LOSS


def popular_items(counts: NDArray[np.float64], threshold: float, at_least: int, at_most: int) -> NDArray[np.int64]:
    """The items with the largest noisy counts, int64 [M], ascending.

    counts: float64 [items], noisy counts. threshold: Counts above it are popular.
    """
    wanted = int(np.clip(np.count_nonzero(counts > threshold), min(at_least, counts.size), min(at_most, counts.size)))
    return np.sort(np.argsort(-counts, kind="stable")[:wanted])


def count_clip(law: SizeLaw, units: float, unit_stddev: float, noise_factor: float, kept: float, norm: int) -> float:
    """The norm for item counts: the smallest predicted error among those that leave enough units as they are.

    law: The law of sizes. units: Number of units.
    unit_stddev: Standard deviation of the noise of a count at a norm of 1.
    noise_factor: Predicted largest error from noise, in standard deviations.
    kept: Fraction of the units that must keep their weight.
    norm: 2 for the Euclidean norm, 1 for the sum.

    The loss is that of an item which all clipped units hold. The model predicts most of it; a part remains.
    """
    first = min(int(np.searchsorted(np.cumsum(law.probabilities), kept)), law.sizes.size - 1)
    sizes = np.maximum(law.sizes[first:], 1).astype(np.float64)
    clips = np.unique(sizes ** (1 / norm))
    weights = np.minimum(1.0, clips[:, None] / sizes ** (1 / norm))
    losses = units * (1 - weights) @ law.probabilities[first:]
    return float(clips[np.argmin(noise_factor * clips * unit_stddev + REMAINING_LOSS * losses)])


def cell_quantile(cells: NDArray[np.float64], part: float, queries: int) -> float:
    """The number of satisfied queries that about a part of the units do not exceed, at least 1.

    cells: float64 [cells], numbers of units, by 0 and between powers of two (``SatisfactionHistogram``).
    queries: Number of queries.

    Within a range, units are taken as spread evenly over the logarithm.
    """
    ends = np.cumsum(cells)
    wanted = part * ends[-1]
    cell = int(np.searchsorted(ends, wanted)) if ends[-1] > 0 else 0
    if cell == 0:
        return 1.0
    inside = (wanted - ends[cell - 1]) / max(cells[cell], 1e-9)
    return float(np.clip(2.0 ** (cell - 1 + np.clip(inside, 0.0, 1.0)), 1.0, queries))


def largest_pair_part(counts: NDArray[np.float64]) -> float:
    """The part that the most common pair has of the sum of all pairs, if items were independent; in (0, 1].

    counts: float64 [M], noisy counts of the items.
    """
    positive = np.sort(np.maximum(counts, 0.0))[::-1]
    pairs = (positive.sum() ** 2 - (positive**2).sum()) / 2
    return float(positive[0] * positive[1] / pairs) if pairs > 0 else 1.0
