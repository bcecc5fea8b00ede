"""Shrinkage of noisy answers towards predictions: empirical Bayes with a limit on the move of each answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MIN_BIN = 100
_GROWTH = 1.25


def shrunk(
    values: NDArray[np.float64], stddev: float, predicted: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """Empirical Bayes estimates of m answers: float64 [m].

    values: float64 [m], answers with independent noise.
    stddev: The standard deviation of the noise, in the units of the values.
    predicted: float64 [m], a prediction of each answer that does not depend on the answer's own noise.
    limit: The farthest that an answer may move, in the units of the values, so that an answer that the prediction
        misses by far is not lost.

    Answers are put in bins of similar predictions, smaller bins where predictions are large. With a the mean and v the
    variance of a bin's residuals, the true answers vary by v - stddev^2 around predicted + a, and an answer moves
    towards that by the part stddev^2 / v of its residual. Fewer than 100 answers, and answers without noise, stay as
    they are.

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
    """Ranges (start, stop) of growing sizes from 100 on; a last one that is smaller is merged into the one before."""
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
