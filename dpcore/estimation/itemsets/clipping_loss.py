"""The loss by clipping that a count is expected to have, as a curve over counts, for millions of itemsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_BINS_PER_OCTAVE: Final = 16  # Counts within 4 % of each other are one point of the curve.
_ROUNDS: Final = 3  # Each round starts from the counts that the previous round completed.
_BISECTIONS: Final = 60


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Expected losses at some clipped counts, between which they are interpolated.

    counts: float64 [points], ascending.
    losses: float64 [points], >= 0.
    """

    counts: NDArray[np.float64]
    losses: NDArray[np.float64]

    def at(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The expected loss of each clipped count, float64."""
        return np.asarray(np.interp(counts, self.counts, self.losses))


def loss_curve(
    counts: NDArray[np.float64], satisfied: NDArray[np.float64], units: NDArray[np.float64], lost: NDArray[np.float64]
) -> LossCurve:
    """The losses that units cause who hold so many of the itemsets that they are clipped.

    counts: float64 [m], estimates of all clipped counts; those that are not positive count as 0.
    satisfied: float64 [p], positive numbers of the itemsets that a unit may hold.
    units: float64 [p], how many units hold so many.
    lost: float64 [p], in [0, 1], the part of each of its counts that such a unit loses.

    A unit that holds k of the itemsets is assumed to hold one of count c with probability 1 - exp(-s c), where s makes
    these probabilities sum to k. This is the law of ``dpcore.estimation.clipping.expected_loss``, on bins of counts.
    """
    heavy = (lost > 0) & (units > 0)
    positive = counts[counts > 0]
    if not heavy.any() or not positive.size:
        return LossCurve(np.zeros(1), np.zeros(1))
    _, members, sizes = np.unique(
        np.floor(_BINS_PER_OCTAVE * np.log2(positive)), return_inverse=True, return_counts=True
    )
    means = np.bincount(members, weights=positive) / sizes
    losses = np.zeros_like(means)
    for _ in range(_ROUNDS):
        activities = _activities(means + losses, sizes, satisfied[heavy])
        losses = -((units * lost)[heavy] @ np.expm1(-np.outer(activities, means + losses)))
    return LossCurve(np.concatenate([[0.0], means]), np.concatenate([[0.0], losses]))


def _activities(
    counts: NDArray[np.float64], sizes: NDArray[np.int64], satisfied: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The s of each k for which 1 - exp(-s c), summed over all itemsets, is k, by bisection of its logarithm."""
    low, high = np.full(satisfied.size, -60.0), np.full(satisfied.size, 60.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        expected = -np.expm1(-np.outer(np.exp2(middle), counts / counts.max())) @ sizes
        low, high = np.where(expected < satisfied, middle, low), np.where(expected < satisfied, high, middle)
    return np.asarray(np.exp2((low + high) / 2) / counts.max())
