"""How active units are that satisfy a given number of queries: a saturating model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BINS_PER_OCTAVE = 8  # Answers within 9 % of each other share a bin when the activity of units is fitted.
_BISECTIONS = 60


def activities(answers: NDArray[np.float64], satisfied: NDArray[np.float64]) -> NDArray[np.float64]:
    """The activity s of a unit that satisfies k of m queries, for each of p numbers k, float64 [p].

    answers: float64 [m], exact answers in counts; negative ones are treated as 0.
    satisfied: float64 [p], positive numbers k.

    A unit of activity s is assumed to satisfy query q with probability 1 - exp(-s a_q), where a_q is the answer. This
    probability is proportional to the answer while it is small, and never exceeds 1. The activity is the s for which
    the probabilities sum to k, by bisection; it is very large if no s attains k. One factor for all answers instead
    would make popular answers far too large, because heavy units satisfy nearly all popular queries already.
    """
    positive = answers[answers > 0]
    bins = np.floor(_BINS_PER_OCTAVE * np.log2(positive)).astype(np.int64)
    _, bin_of_answer, sizes = np.unique(bins, return_inverse=True, return_counts=True)
    means = np.bincount(bin_of_answer, weights=positive) / sizes
    low = np.full(satisfied.size, -60.0)  # Bounds on log2(s max(a)).
    high = np.full(satisfied.size, 60.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        expected = -np.expm1(-np.exp2(middle)[:, None] * (means / means.max())) @ sizes
        low, high = np.where(expected < satisfied, middle, low), np.where(expected < satisfied, high, middle)
    return np.asarray(np.exp2((low + high) / 2) / means.max())
