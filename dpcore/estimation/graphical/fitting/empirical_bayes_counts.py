"""One-way marginals from noisy counts by empirical Bayes, for attributes with many rare values or under large noise.

Counts far above the noise are called *known*. The prior of the other counts of an attribute is a gamma distribution
with their mean, independent for each count. With a large shape parameter it expects nearly equal counts, with a small
one a few large counts among many zeros. The posterior averages over nine shapes, weighted by how probable they make the
noisy counts, so that each kind of attribute gets a prior that fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, gammaincinv

from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement

Vector = NDArray[np.float64]
_SHAPES: Final = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 16.0, 100.0])
_QUANTILES: Final = np.array([0.0, *(np.arange(1, 32) / 32), 1 - 1e-3, 1 - 1e-5])
_PIECES: Final = 129  # Number of evenly spaced edges of the integration grid.
_REACH: Final = 6.0  # The even edges end this many standard deviations above the largest noisy count.
_KNOTS: Final = 64  # Largest number of noisy counts whose posteriors are computed; others are interpolated.
_KNOWN_FROM: Final = 20.0  # A count is known if it is more than this many standard deviations above 0.
_MAX_SHIFT: Final = 2.0  # A known count moves by at most this many standard deviations.
_MIN_COUNT: Final = 1e-9


def with_posterior_counts(measurements: Sequence[LinearMeasurement], total: float) -> list[LinearMeasurement]:
    """Replaces the values of centred one-way marginals by their ``posterior_counts``; other measurements are kept.

    measurements: Components, from ``component_measurements``.
    total: Number of rows, > 0.
    """
    return [
        _with_posterior_counts(measurement, total)
        if measurement.centred and len(measurement.clique) == 1
        else measurement
        for measurement in measurements
    ]


def posterior_counts(noisy: Vector, stddev: float, total: float) -> Vector:
    """Posterior medians of the counts of an attribute's values, float64 [size], positive, with sum ``total``.

    noisy: Noisy counts, float64 [size], with sum ``total``; the noise is iid and approximately Gaussian.
    stddev: Standard deviation of the noise, > 0.
    total: Number of rows, > 0.

    The medians of skewed distributions sum to less than the means, so the counts are scaled up to the total. A known
    count moves by at most two standard deviations of its noise; the other counts take up the rest of the difference.
    """
    unknown = noisy <= _KNOWN_FROM * stddev
    if not unknown.any():
        return np.asarray(noisy * (total / noisy.sum()))
    known = noisy[~unknown]
    # The sum of the unknown counts may be mere noise.
    min_sum = stddev * min(max(known.size, 1), int(unknown.sum())) ** 0.5 / 2
    medians = _medians(noisy[unknown], stddev, max(float(noisy[unknown].sum()), min_sum))
    scaled = known * (total / (known.sum() + medians.sum()))
    counts = noisy.copy()
    counts[~unknown] = np.clip(scaled, known - _MAX_SHIFT * stddev, known + _MAX_SHIFT * stddev)
    counts[unknown] = medians * (max(total - counts[~unknown].sum(), min_sum) / medians.sum())
    return np.asarray(counts * (total / counts.sum()))


def _with_posterior_counts(measurement: LinearMeasurement, total: float) -> LinearMeasurement:
    """Replaces the values of one centred one-way marginal.

    The noise in centred counts sums to 0, so its variance is smaller by the factor (size - 1) / size.
    """
    size = measurement.values.size
    if size < 2:
        return measurement
    stddev = ((size - 1) / size / measurement.precision) ** 0.5
    counts = posterior_counts(measurement.values + total / size, stddev, total)
    return replace(measurement, values=counts - total / size)


def _medians(noisy: Vector, stddev: float, total: float) -> Vector:
    """The posterior medians of counts that sum to about ``total``; float64 [size], positive.

    Medians have a smaller L1 error than means. The posteriors of the shapes are averaged with the weights of their
    evidence from all counts.
    """
    scales = total / noisy.size / _SHAPES
    edges = _edges(float(noisy.max()), stddev, scales)
    knots = np.unique(noisy)
    if knots.size > _KNOTS:
        knots = np.linspace(knots[0], knots[-1], _KNOTS)
    deviations = (knots[:, None] - (edges[1:] + edges[:-1]) / 2) / stddev
    with np.errstate(divide="ignore"):
        log_weights = np.log(_prior(edges, scales))[:, None] - deviations**2 / 2  # [shapes, knots, pieces]
    largest = log_weights.max(axis=2, keepdims=True)
    weights = np.exp(log_weights - largest)
    sums = weights.sum(axis=2, keepdims=True)
    evidence = np.array([np.interp(noisy, knots, shape).sum() for shape in (np.log(sums) + largest)[:, :, 0]])
    shape_weights = np.exp(evidence - evidence.max())
    posterior = np.tensordot(shape_weights / shape_weights.sum(), weights / sums, axes=1)
    return np.asarray(np.maximum(np.interp(noisy, knots, _interpolated_median(posterior, edges)), _MIN_COUNT))


def _edges(largest: float, stddev: float, scales: Vector) -> Vector:
    """Edges between pieces of the axis of counts, ascending.

    Evenly spaced edges resolve the noise, and quantiles of each shape resolve its prior, so that sums over the pieces
    approximate integrals.
    """
    even = np.linspace(0.0, max(largest, 0.0) + _REACH * stddev, _PIECES)
    quantiles = (scales[:, None] * gammaincinv(_SHAPES[:, None], _QUANTILES)).ravel()
    return np.asarray(np.unique(np.concatenate([even, quantiles])))


def _prior(edges: Vector, scales: Vector) -> Vector:
    """Prior probabilities of the pieces for each shape, float64 [shapes, pieces]; accurate in both tails."""
    standardised = edges / scales[:, None]
    lower, upper = gammainc(_SHAPES[:, None], standardised), gammaincc(_SHAPES[:, None], standardised)
    return np.asarray(np.maximum(np.where(lower[:, 1:] < 0.5, np.diff(lower), -np.diff(upper)), 0.0))


def _interpolated_median(probabilities: Vector, edges: Vector) -> Vector:
    """The medians of distributions over the pieces, float64 [distributions]."""
    cumulative = np.cumsum(probabilities, axis=1)
    piece = np.argmax(cumulative >= 0.5, axis=1)
    row = np.arange(piece.size)
    excess = (cumulative[row, piece] - 0.5) / probabilities[row, piece]
    return np.asarray(edges[piece + 1] - (edges[piece + 1] - edges[piece]) * excess)
