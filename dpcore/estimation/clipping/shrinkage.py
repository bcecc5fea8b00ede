"""Shrinkage of noisy answers towards predictions: empirical Bayes with limited translation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MIN_BIN = 100  # Minimum number of answers in a bin.
_GROWTH = 1.25  # Ratio of the sizes of successive bins.


def shrunk(
    values: NDArray[np.float64], stddev: float, predicted: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """Empirical Bayes estimates of m answers, float64 [m].

    values: float64 [m], answers with independent noise.
    stddev: Standard deviation of the noise, in the units of the values.
    predicted: float64 [m], a prediction of each answer that does not depend on the answer's own noise.
    limit: Maximum change of an answer, in the units of the values. It protects answers whose predictions are far off.

    Answers with similar predictions share a bin; bins of large predictions are smaller. Let a be the mean and v the
    variance of the residuals in a bin. Then the true answers have variance v - stddev^2 around predicted + a, and an
    answer moves towards predicted + a by the fraction stddev^2 / v of its distance. Fewer than 100 answers, and answers
    without noise, are returned unchanged.

    Source: Efron and Morris (1971), limited translation rules for Bayes and empirical Bayes estimators.
    """
    if len(values) < _MIN_BIN or stddev == 0:
        return values.copy()
    estimates = np.empty_like(values)
    order = np.argsort(-predicted, kind="stable")
    residuals = (values - predicted)[order]
    for start, stop in _bins(len(values)):
        bin_residuals = residuals[start:stop]
        mean = float(bin_residuals.mean())
        weight = min(1.0, stddev**2 / max(float(np.mean((bin_residuals - mean) ** 2)), stddev**2 * 1e-12))
        members = order[start:stop]
        estimates[members] = values[members] + np.clip(weight * (mean - bin_residuals), -limit, limit)
    return estimates


def _bins(count: int) -> list[tuple[int, int]]:
    """Ranges (start, stop) of growing sizes, the first of 100; a smaller last range is merged into the one before."""
    bins: list[tuple[int, int]] = []
    start, size = 0, float(_MIN_BIN)
    while start < count:
        stop = min(count, start + int(size))
        if bins and stop - start < bins[-1][1] - bins[-1][0]:
            bins[-1] = bins[-1][0], stop
        else:
            bins.append((start, stop))
        start, size = stop, size * _GROWTH
    return bins
