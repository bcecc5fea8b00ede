"""Estimates of item counts from noisy ones: nonparametric empirical Bayes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_CERTAIN: Final = 30.0  # Values above this many standard deviations are left as they are.
_BINS_PER_DEVIATION: Final = 8
# The grid of the prior, in standard deviations: from the smallest positive count geometrically to 1, then in steps.
_SMALLEST, _SMALL_STEPS, _STEP = 0.02, 19, 0.25
_SWEEPS: Final = 200
_NEIGHBOUR: Final = 0.25  # The part of its weight that a grid point gives to each neighbour in a sweep.
# A value that is significant by itself moves little, so that a common item is not taken for a rare one. The threshold
# is low, because a common item whose noise is far below zero has a value of hardly two standard deviations.
_SIGNIFICANT, _LARGEST_MOVE = 1.5, 0.75  # In standard deviations.
_LARGEST_FACTOR: Final = 16.0  # By which insignificant counts are scaled so that the sum of all counts is kept.


def estimated_counts(
    values: NDArray[np.float64], stddev: float, fitted: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Estimates of counts, float64 [items], whose sum is about that of the values, because it has no bias.

    values: float64 [items], counts with independent normal noise; they may be negative.
    stddev: Standard deviation of the noise. With 0 or less, values below 0 become 0 and others stay.
    fitted: Items whose values stay, because a fit with further evidence follows; none by default. Other estimates
        are >= 0.

    Posterior means, with limited translation: values above 1.5 standard deviations move by at most 0.75. What this
    adds to the sum is taken from the values below, in proportion to their means.

    Source: Efron and Morris (1971), limited translation rules for Bayes and empirical Bayes estimators.
    """
    if stddev <= 0:
        return np.maximum(values, 0.0)
    move = _LARGEST_MOVE * stddev
    significant = values > _SIGNIFICANT * stddev
    means = posterior_means(values, stddev)
    counts = np.where(significant, np.clip(means, values - move, values + move), means)
    if fitted is not None:
        significant[fitted], counts[fitted] = True, values[fitted]
    missing, small = float(values.sum() - counts[significant].sum()), float(counts[~significant].sum())
    if small > 0:
        counts[~significant] *= np.clip(missing / small, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)
    return counts


def posterior_means(values: NDArray[np.float64], stddev: float) -> NDArray[np.float64]:
    """Posterior means of counts, float64 [items], >= 0 where they are not left as they are.

    values: float64 [items]. stddev: Positive. As in ``estimated_counts``.

    The prior is any smooth distribution over a grid of non-negative counts, with an atom at 0: the one that makes the
    values most likely, by the EM algorithm with smoothing. It adapts to sparse data, where most counts are below the
    noise, and to dense data alike. Values above 30 standard deviations stay, because over such distances the
    popularity of items is nearly even: their estimates are the values.

    Source: Robbins (1950); Kiefer and Wolfowitz (1956); Silverman, Jones, Wilson and Nychka (1990), the EMS algorithm;
    Jiang and Zhang (2009), general maximum likelihood empirical Bayes.
    """
    scaled = values / stddev
    uncertain = np.flatnonzero(scaled < _CERTAIN)
    if not uncertain.size:
        return values.copy()
    bins, which, sizes = np.unique(
        np.floor(scaled[uncertain] * _BINS_PER_DEVIATION), return_inverse=True, return_counts=True
    )
    centres, grid = (bins + 0.5) / _BINS_PER_DEVIATION, _grid()
    distances = (centres[:, None] - grid) ** 2
    likelihood = np.exp(-0.5 * (distances - distances.min(axis=1, keepdims=True)))
    prior = np.full(grid.size, 1 / grid.size)
    for _ in range(_SWEEPS):
        joint = likelihood * prior
        prior = _smoothed(sizes @ (joint / joint.sum(axis=1, keepdims=True)))
    joint = likelihood * prior
    means = scaled.copy()
    means[uncertain] = (joint @ grid / joint.sum(axis=1))[which]
    return np.asarray(means * stddev)


def _grid() -> NDArray[np.float64]:
    """Counts in standard deviations, ascending from 0."""
    small = np.geomspace(_SMALLEST, 1.0, _SMALL_STEPS, endpoint=False)
    return np.concatenate([[0.0], small, np.arange(1.0, _CERTAIN + 3.0, _STEP)])


def _smoothed(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """A distribution over the grid in which every positive point has given parts to its neighbours."""
    positive = np.pad(weights[1:], 1, mode="edge")
    smooth = (1 - 2 * _NEIGHBOUR) * positive[1:-1] + _NEIGHBOUR * (positive[:-2] + positive[2:])
    result = np.concatenate([weights[:1], smooth])
    return np.asarray(result / result.sum())
