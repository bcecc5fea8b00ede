"""What clipping took from each answer: expected from the answers themselves and from how many queries units satisfy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BINS_OF_TWO = 8  # Answers within 9 % of each other are one when the activity of units is fitted.
_ROUNDS = 3  # Each round works with the answers that the one before completed; further ones change nothing.
_BISECTIONS = 60


def expected_loss(
    answers: NDArray[np.float64], satisfied: NDArray[np.float64], units: NDArray[np.float64], lost: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Counts that each of m clipped answers is expected to lack, float64 [m], >= 0.

    answers: float64 [m], clipped, in counts; negative ones count as 0.
    satisfied: float64 [p], > 0, numbers of queries that units satisfy. units: float64 [p], how many do.
    lost: float64 [p], in 0 .. 1, the part of each of its answers that such a unit loses.

    A unit that satisfies k queries is taken to satisfy query q with chance 1 - exp(-s a_q): in proportion to the answer
    a_q while that is small, and never more than surely. s is such that these chances sum to k. To scale all answers by
    one factor instead makes popular ones far too large: heavy units satisfy nearly all of those, and no more.
    """
    heavy = (lost > 0) & (units > 0)
    completed = np.maximum(answers, 0.0)
    loss = np.zeros_like(completed)
    if not heavy.any() or not completed.any():
        return loss
    for _ in range(_ROUNDS):
        current = np.maximum(answers + loss, 0.0)
        activities = _activities(current, satisfied[heavy])
        loss = np.zeros_like(current)
        for activity, weight in zip(activities, (units * lost)[heavy], strict=True):
            loss -= weight * np.expm1(-activity * current)
    return loss


def _activities(answers: NDArray[np.float64], satisfied: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each k the s with sum over q of 1 - exp(-s a_q) = k, float64 [p]; very large where k cannot be reached."""
    positive = answers[answers > 0]
    bins = np.floor(_BINS_OF_TWO * np.log2(positive)).astype(np.int64)
    _, places, sizes = np.unique(bins, return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=positive) / sizes
    low = np.full(satisfied.size, -60.0)  # In powers of two over the largest answer.
    high = np.full(satisfied.size, 60.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        reached = -np.expm1(-np.exp2(middle)[:, None] * (means / means.max())) @ sizes
        low, high = np.where(reached < satisfied, middle, low), np.where(reached < satisfied, high, middle)
    return np.asarray(np.exp2((low + high) / 2) / means.max())
