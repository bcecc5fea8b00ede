"""One-way marginals from noisy counts, where many values are rare or noise is large: what few counts tell of the rest.

Counts that stand far out of the noise are known up to it. The others of an attribute are taken as independent draws
from a gamma distribution whose mean is theirs: nearly equal counts for a large shape, a few large ones among many zeros
for a small one. How probable each shape makes the noisy counts decides between them, so that an attribute of either
kind is taken for what it is.
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
_PIECES: Final = 129
_REACH: Final = 6.0  # Standard deviations: no count lies further above its noisy one.
_KNOTS: Final = 64  # Noisy counts that posteriors are computed for; between them they are interpolated.
_CLEAR: Final = 20.0  # Standard deviations: so far above 0 a count is known.
_OFF: Final = 2.0  # Standard deviations: as far as a known count is moved.
_LEAST: Final = 1e-9


def denoised(terms: Sequence[LinearMeasurement], total: float) -> list[LinearMeasurement]:
    """The same with the centred one-way terms at ``likely_counts``."""
    return [_denoised(term, total) if term.centred and len(term.clique) == 1 else term for term in terms]


def likely_counts(noisy: Vector, stddev: float, total: float) -> Vector:
    """What the counts of an attribute's values probably are: float64 [size], positive, with sum ``total``.

    noisy: With iid Gaussian noise of this standard deviation, or noise much like it, and with sum ``total``.

    Medians of a skewed distribution sum to less than its mean: known counts take their part of the difference as far as
    their noise explains it, the others the rest.
    """
    rest = noisy <= _CLEAR * stddev
    if not rest.any():
        return np.asarray(noisy * (total / noisy.sum()))
    known = noisy[~rest]
    least = stddev * min(max(known.size, 1), int(rest.sum())) ** 0.5 / 2  # Of the others' sum, which may be noise.
    medians = _medians(noisy[rest], stddev, max(float(noisy[rest].sum()), least))
    scaled = known * (total / (known.sum() + medians.sum()))
    found = noisy.copy()
    found[~rest] = np.clip(scaled, known - _OFF * stddev, known + _OFF * stddev)
    found[rest] = medians * (max(total - found[~rest].sum(), least) / medians.sum())
    return np.asarray(found * (total / found.sum()))


def _denoised(term: LinearMeasurement, total: float) -> LinearMeasurement:
    """The noise in centred counts sums to 0, and is that much smaller."""
    size = term.values.size
    if size < 2:
        return term
    stddev = ((size - 1) / size / term.precision) ** 0.5
    return replace(term, values=likely_counts(term.values + total / size, stddev, total) - total / size)


def _medians(noisy: Vector, stddev: float, total: float) -> Vector:
    """The posterior median of each, which errs less in L1 than the mean, for counts with about this sum; float64
    [size], positive.

    Each shape's posterior is weighed by its evidence from all counts.
    """
    scales = total / noisy.size / _SHAPES
    edges = _edges(float(noisy.max()), stddev, scales)
    knots = np.unique(noisy)
    if knots.size > _KNOTS:
        knots = np.linspace(knots[0], knots[-1], _KNOTS)
    apart = (knots[:, None] - (edges[1:] + edges[:-1]) / 2) / stddev
    with np.errstate(divide="ignore"):
        weights = np.log(_prior(edges, scales))[:, None] - apart**2 / 2  # [shapes, knots, pieces]
    most = weights.max(axis=2, keepdims=True)
    weights = np.exp(weights - most)
    together = weights.sum(axis=2, keepdims=True)
    evidence = np.array([np.interp(noisy, knots, of).sum() for of in (np.log(together) + most)[:, :, 0]])
    chances = np.exp(evidence - evidence.max())
    posterior = np.tensordot(chances / chances.sum(), weights / together, axes=1)
    return np.asarray(np.maximum(np.interp(noisy, knots, _middle(posterior, edges)), _LEAST))


def _edges(largest: float, stddev: float, scales: Vector) -> Vector:
    """Between pieces of the axis of counts, ascending: fine beside the noise, and with equal chances for each shape, so
    that sums over the pieces do for integrals.
    """
    even = np.linspace(0.0, max(largest, 0.0) + _REACH * stddev, _PIECES)
    return np.asarray(
        np.unique(np.concatenate([even, (scales[:, None] * gammaincinv(_SHAPES[:, None], _QUANTILES)).ravel()]))
    )


def _prior(edges: Vector, scales: Vector) -> Vector:
    """Chances of the pieces for each shape, float64 [shapes, pieces]; exact in either tail."""
    at = edges / scales[:, None]
    below, above = gammainc(_SHAPES[:, None], at), gammaincc(_SHAPES[:, None], at)
    return np.asarray(np.maximum(np.where(below[:, 1:] < 0.5, np.diff(below), -np.diff(above)), 0.0))


def _middle(chances: Vector, edges: Vector) -> Vector:
    """The medians of distributions over the pieces, float64 [rows of chances]."""
    passed = np.cumsum(chances, axis=1)
    piece = np.argmax(passed >= 0.5, axis=1)
    row = np.arange(piece.size)
    part = (passed[row, piece] - 0.5) / chances[row, piece]
    return np.asarray(edges[piece + 1] - (edges[piece + 1] - edges[piece]) * part)
