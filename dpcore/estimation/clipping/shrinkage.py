"""Shrinkage of noisy answers towards predictions: empirical Bayes with limited translation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MIN_BIN: Final = 100
"""Minimum number of answers in a bin, unless the caller wants another one: fewer are not shrunk."""

_GROWTH: Final = 1.25  # Ratio of the sizes of successive bins.


def shrunk(
    values: NDArray[np.float64],
    stddev: float,
    predictions: Sequence[NDArray[np.float64]],
    limit: float,
    min_bin: int = MIN_BIN,
) -> NDArray[np.float64]:
    """Empirical Bayes estimates of m answers, float64 [m].

    values: float64 [m], answers with independent noise.
    stddev: Standard deviation of the noise, in the units of the values.
    predictions: One or two predictions of each answer, float64 [m], that do not depend on the answer's own noise.
    limit: Maximum change of an answer, in the units of the values. It protects answers whose predictions are far off.
    min_bin: Minimum number of answers in a bin.

    Answers with similar predictions share a bin; bins of large predictions are smaller. Of two predictions, each bin
    uses the mixture with the smallest squared residuals. Let a be the mean and v the variance of the residuals in a
    bin. Then the true answers have variance v - stddev^2 around the prediction + a, and an answer moves towards it by
    the fraction stddev^2 / v of its distance. Fewer than ``min_bin`` answers, and answers without noise, are returned
    unchanged.

    Source: Efron and Morris (1971), limited translation rules for Bayes and empirical Bayes estimators.
    """
    estimates = values.copy()
    if len(values) < min_bin or stddev == 0:
        return estimates
    order = np.argsort(-predictions[-1], kind="stable")
    for start, stop in _bins(len(values), min_bin):
        members = order[start:stop]
        residuals = values[members] - _mixed(values[members], [prediction[members] for prediction in predictions])
        mean = float(residuals.mean())
        weight = min(1.0, stddev**2 / max(float(np.mean((residuals - mean) ** 2)), stddev**2 * 1e-12))
        estimates[members] += np.clip(weight * (mean - residuals), -limit, limit)
    return estimates


def _mixed(values: NDArray[np.float64], predictions: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The mixture of one or two predictions that is nearest to the values, up to a constant."""
    if len(predictions) == 1:
        return predictions[0]
    first, second = predictions
    difference, residual = first - second, values - second
    difference, residual = difference - difference.mean(), residual - residual.mean()
    square = float(difference @ difference)
    weight = float(np.clip(difference @ residual / square, 0.0, 1.0)) if square > 0 else 0.5
    return np.asarray(second + weight * (first - second))


def _bins(count: int, min_bin: int) -> list[tuple[int, int]]:
    """Ranges (start, stop) of growing sizes, ``min_bin`` first; a smaller last range is merged into the one before."""
    bins: list[tuple[int, int]] = []
    start, size = 0, float(min_bin)
    while start < count:
        stop = min(count, start + int(size))
        if bins and stop - start < bins[-1][1] - bins[-1][0]:
            bins[-1] = bins[-1][0], stop
        else:
            bins.append((start, stop))
        start, size = stop, size * _GROWTH
    return bins
