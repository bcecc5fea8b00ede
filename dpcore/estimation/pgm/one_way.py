"""One-way marginals from noisy counts, where many values are rare or noise is large: what few counts tell of the rest.

Counts that stand far out of the noise are known up to it. The others of an attribute are taken as independent draws
from a gamma distribution whose mean is theirs: nearly equal counts for a large shape, a few large ones among many zeros
for a small one. How probable each shape makes the noisy counts decides between them, so that an attribute of either
kind is taken for what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammaincinv, ndtr

from dpcore.estimation.pgm.linear_terms import LinearTerm

Vector = NDArray[np.float64]
_SHAPES: Final = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 16.0, 100.0])
_QUANTILES: Final = np.array([0.0, *(np.arange(1, 32) / 32), 1 - 1e-3, 1 - 1e-5])
_PIECES: Final = 129
_REACH: Final = 6.0  # Standard deviations: no count lies further from its noisy one.
_KNOTS: Final = 64  # Noisy counts that posteriors are computed for; between them they are interpolated.
_CLEAR: Final = 20.0  # Standard deviations: so far above 0 a count is known.
_LEAST: Final = 1e-9


def denoised(terms: Sequence[LinearTerm], total: float) -> list[LinearTerm]:
    """The same with the centred one-way terms at ``likely_counts``."""
    return [_denoised(term, total) if term.centred and len(term.clique) == 1 else term for term in terms]


def likely_counts(noisy: Vector, stddev: float, total: float) -> Vector:
    """What the counts of an attribute's values probably are: float64 [size], positive, with sum ``total``.

    noisy: With iid Gaussian noise of this standard deviation, or noise much like it, and with sum ``total``.

    Of all counts with this sum they have the least expected L1 error: at its minimum each has the same chance to be too
    large, that is, all are quantiles of their posteriors at one level.
    """
    rest = noisy <= _CLEAR * stddev
    if not rest.any():
        return np.asarray(noisy * (total / noisy.sum()))
    posteriors = _Posteriors(noisy[rest], stddev)

    def counts(level: float) -> Vector:
        """Quantiles at the level of this many standard deviations of a normal distribution."""
        found = noisy + level * stddev
        found[rest] = posteriors.quantiles(float(ndtr(level)))
        return np.asarray(np.maximum(found, _LEAST))

    def excess(level: float) -> float:
        return float(counts(level).sum() - total)

    level = brentq(excess, -_REACH, _REACH) if excess(-_REACH) < 0 < excess(_REACH) else 0.0
    found = counts(level)
    return np.asarray(found * (total / found.sum()))


def _denoised(term: LinearTerm, total: float) -> LinearTerm:
    """The noise in centred counts sums to 0, and is that much smaller."""
    size = term.values.size
    if size < 2:
        return term
    stddev = ((size - 1) / size / term.precision) ** 0.5
    return replace(term, values=likely_counts(term.values + total / size, stddev, total) - total / size)


@final
class _Posteriors:
    """Distributions of counts that do not stand out of the noise: a gamma prior whose shape they tell together.

    noisy: float64 [size].
    """

    def __init__(self, noisy: Vector, stddev: float) -> None:
        mean = max(float(noisy.mean()), stddev * noisy.size**-0.5 / 2)  # Of a sum that may be no more than noise.
        knots = np.unique(noisy)
        if knots.size > _KNOTS:
            knots = np.linspace(knots[0], knots[-1], _KNOTS)
        edges = _edges(float(noisy.max()), stddev, mean / _SHAPES)
        apart = (knots[:, None] - (edges[1:] + edges[:-1]) / 2) / stddev
        with np.errstate(divide="ignore"):
            weights = np.log(_prior(edges, mean / _SHAPES))[:, None] - apart**2 / 2  # [shapes, knots, pieces]
        most = weights.max(axis=2, keepdims=True)
        weights = np.exp(weights - most)
        together = weights.sum(axis=2, keepdims=True)
        evidence = np.array([np.interp(noisy, knots, of).sum() for of in (np.log(together) + most)[:, :, 0]])
        chances = np.exp(evidence - evidence.max())
        self._chances = np.tensordot(chances / chances.sum(), weights / together, axes=1)  # [knots, pieces]
        self._passed = np.cumsum(self._chances, axis=1)
        self._noisy, self._knots, self._edges = noisy, knots, edges

    def quantiles(self, level: float) -> Vector:
        """Of each count at a level between 0 and 1, float64 [size]."""
        reached = level * self._passed[:, -1]
        piece = np.argmax(self._passed >= reached[:, None], axis=1)
        row = np.arange(piece.size)
        part = (self._passed[row, piece] - reached) / self._chances[row, piece]
        begin, end = self._edges[piece], self._edges[piece + 1]
        return np.asarray(np.interp(self._noisy, self._knots, end - (end - begin) * np.minimum(part, 1.0)))


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
