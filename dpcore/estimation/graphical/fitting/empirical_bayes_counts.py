"""One-way marginals from noisy counts by empirical Bayes, for attributes with rare values or under large noise.

The shares of an attribute's values have a symmetric Dirichlet prior. With a large shape parameter it expects nearly
equal shares, with a small one a few large shares among many zeros. How common each of eleven shapes is among the
attributes of the table is learnt from all of them, by maximum likelihood, with a few attributes of unknown shape added.

The share of one of two values then has a beta prior. Of more values, each count has a gamma prior, independent of the
others. Counts far above the noise are called *known*; the gamma prior is that of the other counts of the attribute, and
has their mean.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, gammainc, gammaincc, gammaincinv

from dpcore.estimation.graphical.fitting.learnt_probabilities import learnt_probabilities, posteriors
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement

Vector = NDArray[np.float64]
_SHAPES: Final = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 16.0, 100.0])
_EVEN: Final = np.full(_SHAPES.size, 1 / _SHAPES.size)
_PSEUDO_ATTRIBUTES: Final = 4.0  # Number of attributes with an unknown shape that are added to the learnt ones.
_OPEN: Final = 0.1  # The chance that an attribute is like none of the others.
_STEPS: Final = 100  # Steps of expectation-maximisation.
_QUANTILES: Final = np.array([0.0, *(np.arange(1, 32) / 32), 1 - 1e-3, 1 - 1e-5])
_PIECES: Final = 129  # Number of evenly spaced edges of the integration grid.
_REACH: Final = 6.0  # The even edges end this many standard deviations away from noisy counts.
_KNOTS: Final = 64  # Largest number of noisy counts whose posteriors are computed; others are interpolated.
_KNOWN_FROM: Final = 20.0  # A count is known if it is more than this many standard deviations above 0.
_MAX_SHIFT: Final = 2.0  # A known count moves by at most this many standard deviations.
_MIN_COUNT: Final = 1e-9


@final
@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The noisy counts of an attribute's values, whose sum is the number of rows.

    values: float64 [size].
    stddev: Standard deviation of the noise in each of them, > 0. The noise is approximately Gaussian, and sums to 0.
    """

    values: Vector
    stddev: float

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which counts are not known, bool [size]: of two values both, because each tells the other."""
        return np.asarray((self.values <= _KNOWN_FROM * self.stddev) | (self.values.size == 2))

    @property
    def min_sum(self) -> float:
        """The least sum of the unknown counts: what was measured of it may be mere noise."""
        unknown = int(self.unknown.sum())
        return self.stddev * math.sqrt(min(max(self.values.size - unknown, 1), unknown)) / 2


def with_posterior_counts(measurements: Sequence[LinearMeasurement], total: float) -> list[LinearMeasurement]:
    """Replaces the values of centred one-way marginals by their ``posterior_counts``; other measurements are kept.

    measurements: Components, from ``component_measurements``.
    total: Number of rows, > 0.

    The noise in centred counts sums to 0, so its variance is smaller by the factor (size - 1) / size.
    """
    replaced = list(measurements)
    one_way = [
        index
        for index, measurement in enumerate(measurements)
        if measurement.centred and len(measurement.clique) == 1 and measurement.values.size > 1
    ]
    noisy = []
    for index in one_way:
        size, measurement = measurements[index].values.size, measurements[index]
        stddev = ((size - 1) / size / measurement.precision) ** 0.5
        noisy.append(NoisyCounts(measurement.values + total / size, stddev))
    for index, counts in zip(one_way, posterior_counts(noisy, total), strict=True):
        replaced[index] = replace(measurements[index], values=counts - total / counts.size)
    return replaced


def posterior_counts(attributes: Sequence[NoisyCounts], total: float) -> list[Vector]:
    """Posterior medians of the counts of each attribute's values, float64 [size], positive, with sum ``total``.

    total: Number of rows, > 0.

    Medians have a smaller L1 error than means. Those of skewed distributions sum to less than the means, so the counts
    are scaled up to the total. A known count moves by at most two standard deviations of its noise; the other counts
    take up the rest of the difference.
    """
    of_attributes = [_Posteriors.of(noisy, total) if noisy.unknown.any() else None for noisy in attributes]
    evidence = [unknown.evidence for unknown in of_attributes if unknown is not None]
    probabilities = _shape_probabilities(np.array(evidence).reshape(-1, _SHAPES.size))
    return [
        np.asarray(noisy.values * (total / noisy.values.sum()))
        if unknown is None
        else _posterior_counts(noisy, unknown.medians(probabilities), total)
        for noisy, unknown in zip(attributes, of_attributes, strict=True)
    ]


def _posterior_counts(noisy: NoisyCounts, medians: Vector, total: float) -> Vector:
    """The counts of an attribute, given the posterior medians of its unknown counts."""
    unknown, stddev = noisy.unknown, noisy.stddev
    known = noisy.values[~unknown]
    scaled = known * (total / (known.sum() + medians.sum()))
    counts = noisy.values.copy()
    counts[~unknown] = np.clip(scaled, known - _MAX_SHIFT * stddev, known + _MAX_SHIFT * stddev)
    counts[unknown] = medians * (max(total - counts[~unknown].sum(), noisy.min_sum) / medians.sum())
    return np.asarray(counts * (total / counts.sum()))


def _shape_probabilities(evidence: Vector) -> Vector:
    """How common each shape is, by expectation-maximisation, float64 [shapes].

    evidence: Log likelihood of each attribute's noisy counts under each shape, float64 [attributes, shapes].
    """
    return (1 - _OPEN) * learnt_probabilities(evidence, _PSEUDO_ATTRIBUTES, _STEPS) + _OPEN * _EVEN


@final
@dataclass(frozen=True, eq=False)
class _Posteriors:
    """The posteriors of an attribute's unknown counts under each shape.

    noisy: The noisy counts that are not known, float64 [counts].
    stddev: Standard deviation of the noise in each of them.
    edges: Edges between pieces of the axis of counts, ascending, float64 [pieces + 1].
    prior: Prior probabilities of the pieces, float64 [shapes, pieces].
    evidence: Log likelihood of the noisy counts under each shape, up to a constant, float64 [shapes].
    """

    noisy: Vector
    stddev: float
    edges: Vector
    prior: NDArray[np.float64]
    evidence: Vector

    @classmethod
    def of(cls, attribute: NoisyCounts, total: float) -> _Posteriors:
        noisy, stddev = attribute.values[attribute.unknown], attribute.stddev
        if attribute.values.size == 2:
            edges = _beta_edges(noisy, stddev, total)
            prior = _probabilities(*_beta_tails(edges / total))
        else:
            scales = max(float(noisy.sum()), attribute.min_sum) / noisy.size / _SHAPES
            edges = _gamma_edges(float(noisy.max()), stddev, scales)
            standardised, shapes = edges / scales[:, None], _SHAPES[:, None]
            prior = _probabilities(gammainc(shapes, standardised), gammaincc(shapes, standardised))
        knots, _, log_likelihoods = _at_knots(noisy, stddev, edges, prior)
        evidence = np.array([np.interp(noisy, knots, shape).mean() for shape in log_likelihoods])
        # Counts whose sum is known, or is that of their prior, tell as much as one count fewer.
        return cls(noisy, stddev, edges, prior, (noisy.size - 1) * evidence)

    def medians(self, probabilities: Vector) -> Vector:
        """Medians of the posteriors, averaged over the shapes, float64 [counts], positive."""
        shapes = posteriors(self.evidence, probabilities)
        knots, of_counts, _ = _at_knots(self.noisy, self.stddev, self.edges, self.prior)
        medians = _interpolated_median(np.tensordot(shapes, of_counts, axes=1), self.edges)
        return np.asarray(np.maximum(np.interp(self.noisy, knots, medians), _MIN_COUNT))


def _at_knots(
    noisy: Vector, stddev: float, edges: Vector, prior: NDArray[np.float64]
) -> tuple[Vector, NDArray[np.float64], NDArray[np.float64]]:
    """Noisy counts in ascending order, with what each shape says of them.

    Returns the counts, float64 [knots]; the posterior probabilities of the pieces, float64 [shapes, knots, pieces]; and
    the log likelihoods of the counts, float64 [shapes, knots].
    """
    knots = np.unique(noisy)
    if knots.size > _KNOTS:
        knots = np.linspace(knots[0], knots[-1], _KNOTS)
    deviations = (knots[:, None] - (edges[1:] + edges[:-1]) / 2) / stddev
    with np.errstate(divide="ignore"):
        log_weights = np.log(prior)[:, None] - deviations**2 / 2
    largest = log_weights.max(axis=2, keepdims=True)
    weights = np.exp(log_weights - largest)
    sums = weights.sum(axis=2, keepdims=True)
    return knots, weights / sums, (np.log(sums) + largest)[:, :, 0]


def _gamma_edges(largest: float, stddev: float, scales: Vector) -> Vector:
    """Evenly spaced edges resolve the noise, and quantiles of each shape resolve its prior.

    Sums over the pieces then approximate integrals.
    """
    even = np.linspace(0.0, max(largest, 0.0) + _REACH * stddev, _PIECES)
    quantiles = (scales[:, None] * gammaincinv(_SHAPES[:, None], _QUANTILES)).ravel()
    return np.asarray(np.unique(np.concatenate([even, quantiles])))


def _beta_edges(noisy: Vector, stddev: float, total: float) -> Vector:
    """Edges for a count between 0 and ``total``: even ones around both noisy counts, and those of ``_beta_table``."""
    reach, shares = _REACH * stddev, _beta_table()[0]
    even = np.concatenate([np.linspace(count - reach, count + reach, _PIECES) for count in noisy.tolist()])
    return np.asarray(np.unique(np.clip(np.concatenate([even, total * shares, total * (1 - shares)]), 0.0, total)))


def _beta_tails(shares: Vector) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities below and above some shares for each shape, float64 [shapes, shares]."""
    table, probabilities = _beta_table()
    tails = np.stack([np.interp(np.minimum(shares, 1 - shares), table, shape) for shape in probabilities])
    return np.where(shares < 0.5, tails, 1 - tails), np.where(shares < 0.5, 1 - tails, tails)


@functools.cache
def _beta_table() -> tuple[Vector, NDArray[np.float64]]:
    """Shares from 0 to 1/2, ascending, and the probabilities below them for each shape, float64 [shapes, shares]."""
    quantiles = betaincinv(_SHAPES[:, None], _SHAPES[:, None], np.arange(32) / 64)
    shares = np.unique(np.concatenate([[0.0, 0.5], quantiles.ravel(), np.linspace(0, 0.5, _PIECES)]))
    return shares, betainc(_SHAPES[:, None], _SHAPES[:, None], shares)


def _probabilities(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of the pieces from those of both tails at their edges: accurate in either tail."""
    return np.asarray(np.maximum(np.where(lower[:, 1:] < 0.5, np.diff(lower), -np.diff(upper)), 0.0))


def _interpolated_median(probabilities: NDArray[np.float64], edges: Vector) -> Vector:
    """The medians of distributions over the pieces, float64 [distributions]."""
    cumulative = np.cumsum(probabilities, axis=1)
    piece = np.argmax(cumulative >= 0.5, axis=1)
    row = np.arange(piece.size)
    excess = (cumulative[row, piece] - 0.5) / probabilities[row, piece]
    return np.asarray(edges[piece + 1] - (edges[piece + 1] - edges[piece]) * excess)
