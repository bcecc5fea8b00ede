"""One-way marginals from noisy counts, where many values are rare or noise is large: what few counts tell of the rest.

Counts that stand far out of the noise are known. The others of an attribute are taken as independent draws from a gamma
distribution whose mean is theirs: nearly equal counts for a large shape, a few large ones among many zeros for a small
one. How probable each shape makes the noisy counts decides between them, so that an attribute of either kind is taken
for what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, gammaincinv

from dpcore.estimation.pgm.linear_terms import LinearTerm

Vector = NDArray[np.float64]
_SHAPES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 16.0, 100.0)
_QUANTILES: Final = np.array([0.0, *(np.arange(1, 32) / 32), 1 - 1e-3, 1 - 1e-5])
_NEAR: Final = np.linspace(-6, 6, 65)  # In standard deviations of the noise.
_KNOTS: Final = 64  # Noisy counts that posteriors are computed for; between them they are interpolated.
_CLEAR: Final = 10.0  # Standard deviations: so far above 0 a count is known.
_LEAST: Final = 1e-9


def denoised(terms: Sequence[LinearTerm], total: float) -> list[LinearTerm]:
    """The same with the centred one-way terms at ``likely_counts``."""
    return [_denoised(term, total) if term.centred and len(term.clique) == 1 else term for term in terms]


def likely_counts(noisy: Vector, stddev: float, total: float) -> Vector:
    """What the counts of an attribute's values probably are: float64 [size], positive, with sum ``total``.

    noisy: With iid Gaussian noise of this standard deviation, or noise much like it, and with sum ``total``.
    """
    found, rest = noisy.copy(), noisy <= _CLEAR * stddev
    if rest.any():
        least = stddev * float(rest.sum()) ** 0.5 / 2  # Of their sum, which may be no more than noise.
        found[rest] = _medians(noisy[rest], stddev, max(float(noisy[rest].sum()), least))
    return np.asarray(found * (total / found.sum()))


def _denoised(term: LinearTerm, total: float) -> LinearTerm:
    """The noise in centred counts sums to 0, and is that much smaller."""
    size = term.values.size
    if size < 2:
        return term
    stddev = ((size - 1) / size / term.precision) ** 0.5
    return replace(term, values=likely_counts(term.values + total / size, stddev, total) - total / size)


def _medians(noisy: Vector, stddev: float, total: float) -> Vector:
    """The posterior median of each, which errs less in L1 than the mean, averaged over the shapes by their evidence;
    float64 [size], positive.
    """
    evidence, medians = np.empty(len(_SHAPES)), np.empty((len(_SHAPES), noisy.size))
    knots = _knots(noisy)
    for place, shape in enumerate(_SHAPES):
        logarithms, found = _posterior(knots, stddev, shape, total / noisy.size / shape)
        evidence[place] = np.interp(noisy, knots, logarithms).sum()
        medians[place] = np.interp(noisy, knots, found)
    chances = np.exp(evidence - evidence.max())
    return np.asarray(np.maximum(chances @ medians / chances.sum(), _LEAST))


def _knots(noisy: Vector) -> Vector:
    """Ascending; the least and the largest among them."""
    distinct = np.unique(noisy)
    places = np.linspace(0, distinct.size - 1, min(_KNOTS, distinct.size))
    return np.asarray(distinct[places.round().astype(np.intp)])


def _posterior(noisy: Vector, stddev: float, shape: float, scale: float) -> tuple[Vector, Vector]:
    """Log evidence, but for a constant, and posterior median of each count, float64 [noisy.size] both.

    The prior is cut at its own quantiles and around the noisy count, finely beside the noise, so that sums over the
    pieces do for integrals.
    """
    near = np.maximum(np.maximum(noisy, 0.0)[:, None] + stddev * _NEAR, 0.0)
    far = np.broadcast_to(scale * gammaincinv(shape, _QUANTILES), (noisy.size, _QUANTILES.size))
    edges = np.sort(np.concatenate([near, far], axis=1), axis=1)
    below, above = gammainc(shape, edges / scale), gammaincc(shape, edges / scale)
    chances = np.where(below[:, 1:] < 0.5, np.diff(below), -np.diff(above))  # Exact in either tail.
    apart = (noisy[:, None] - (edges[:, 1:] + edges[:, :-1]) / 2) / stddev
    with np.errstate(divide="ignore"):
        weights = np.log(np.maximum(chances, 0.0)) - apart**2 / 2
    most = weights.max(axis=1, keepdims=True)
    weights = np.exp(weights - most)
    together = weights.sum(axis=1, keepdims=True)
    passed = np.cumsum(weights / together, axis=1)
    piece = np.argmax(passed >= 0.5, axis=1)[:, None]
    part = (passed, weights / together, edges[:, :-1], edges[:, 1:])
    reached, weight, begin, end = (np.take_along_axis(one, piece, axis=1)[:, 0] for one in part)
    medians = end - (end - begin) * (reached - 0.5) / weight
    return (np.log(together) + most)[:, 0], medians
