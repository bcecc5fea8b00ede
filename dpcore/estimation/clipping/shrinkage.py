"""Noisy answers drawn towards predictions, by as much as their noise is the larger error, and never far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SMALLEST_BIN = 100
_GROWTH = 1.25


def shrunk(
    values: NDArray[np.float64], stddev: float, predicted: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """Empirical Bayes estimates of m answers, float64 [m].

    values: Answers with noise of ``stddev``. predicted: For each, without its own noise. limit: Farthest that an answer
        may move, so that no answer that the prediction misses is lost.

    Answers are put in bins of like prediction, small ones where predictions are large. A bin has a mean residual a and
    a variance of residuals v; the truth then varies by v - stddev^2 around predicted + a, and an answer moves towards
    that by the part stddev^2 / v of its residual. With fewer than 100 answers, or without noise, nothing is moved.

    Source: Efron and Morris (1971), limited translation rules for Bayes and empirical Bayes estimators.
    """
    if len(values) < _SMALLEST_BIN or stddev == 0:
        return values.copy()
    moved = np.empty_like(values)
    order = np.argsort(-predicted, kind="stable")
    residuals = (values - predicted)[order]
    for start, stop in _bins(len(values)):
        here = residuals[start:stop]
        mean = float(here.mean())
        part = min(1.0, stddev**2 / max(float(np.mean((here - mean) ** 2)), stddev**2 * 1e-12))
        chosen = order[start:stop]
        moved[chosen] = values[chosen] + np.clip(part * (mean - here), -limit, limit)
    return moved


def _bins(count: int) -> list[tuple[int, int]]:
    """Ranges that grow from 100 on; a rest that is smaller than the one before belongs to it."""
    bins: list[tuple[int, int]] = []
    start, size = 0, float(_SMALLEST_BIN)
    while start < count:
        stop = min(count, start + int(size))
        if bins and stop - start < bins[-1][1] - bins[-1][0]:
            bins[-1] = bins[-1][0], stop
        else:
            bins.append((start, stop))
        start, size = stop, size * _GROWTH
    return bins
