"""Gaussian copulas within classes, from noisy counts: everything here is post-processing.

A row of a class is a vector of correlated standard normal variables, each of which falls into the value of its
attribute that has the same quantiles. Correlations come from the chance that two attributes are both on the lower side
of a split (the tetrachoric correlation of Pearson, 1900).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcore.estimation.independent import to_simplex

_NODES, _WEIGHTS = leggauss(24)
_HALVINGS: Final = 30  # Of the interval of angles in which a correlation is sought.
_LARGEST: Final = 0.995  # Of a correlation in size.
_RAREST: Final = 0.02  # Of the chance of a side of a split, so that no correlation is divided by nearly nothing.
_SMALLEST_EIGENVALUE: Final = 1e-4
_Vector = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Copula:
    """One Gaussian copula per class.

    classes: Probability of each class, float64 [classes].
    values: For each attribute the probability of each value within each class, float64 [classes, values].
    correlations: float64 [classes, attributes, attributes], positive definite with diagonal 1.
    """

    classes: _Vector
    values: tuple[_Vector, ...]
    correlations: _Vector

    def rows(self, count: int, generator: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Random rows, ordered by class: the class of each, int32 [count], and values, int32 [count, attributes].

        The number of rows of each class is its mean, rounded up or down, and so is that of each value within a class:
        the quantiles of a normal variable are its ranks.
        """
        edges = np.rint(np.cumsum(self.classes) * count).astype(np.int64)
        classes = np.repeat(np.arange(len(edges), dtype=np.int32), np.diff(edges, prepend=0))
        codes = np.empty((count, len(self.values)), dtype=np.int32)
        for index in range(len(edges)):
            members = slice(edges[index - 1] if index else 0, edges[index])
            factor = np.linalg.cholesky(self.correlations[index])
            normal = generator.standard_normal((codes[members].shape[0], len(self.values))) @ factor.T
            for axis, values in enumerate(self.values):
                bounds = np.cumsum(values[index])[:-1]
                codes[members, axis] = np.searchsorted(bounds, _ranks(normal[:, axis]), side="right")
        return classes, codes


def _ranks(normal: _Vector) -> _Vector:
    """The rank of each number, evenly spaced in (0, 1)."""
    ranks = np.empty(len(normal))
    ranks[np.argsort(normal)] = (np.arange(len(normal)) + 0.5) / max(1, len(normal))
    return ranks


def class_values(tables: _Vector, sizes: _Vector, stddev: float) -> _Vector:
    """The probability of each value within each class, float64 [classes, values].

    tables: Noisy counts, float64 [classes, values]. sizes: Estimated rows of each class, > 0. stddev: Of the noise.

    Counts are shrunk towards those of all classes together, by as much as the noise exceeds what classes differ by.
    """
    together = np.outer(sizes / sizes.sum(), tables.sum(axis=0))
    squares = float(np.square(tables - together).mean()) if len(tables) > 1 else 0.0
    weight = max(0.0, 1 - stddev**2 / squares) if squares > 0 else 0.0
    mixed = together + weight * (tables - together)
    return np.stack([to_simplex(row / size) for row, size in zip(mixed, sizes, strict=True)])


def median_split(values: _Vector) -> int:
    """Number of values on the lower side of the split that is nearest to the median, in 1 .. values - 1.

    values: Probabilities or counts, float64 [values], two or more.
    """
    return int(np.argmin(np.abs(np.cumsum(values)[:-1] - values.sum() / 2))) + 1


def class_correlations(below: _Vector, products: _Vector, sizes: _Vector, stddev: float) -> _Vector:
    """Correlation matrices of the normal variables, float64 [classes, attributes, attributes].

    below: Chance of the lower side of each attribute's split, float64 [classes, attributes].
    products: Noisy sums over the rows of a class of the product of two sides, -1 below and 1 above, float64 [classes,
        pairs], pairs in the order of ``numpy.triu_indices``.
    sizes: Estimated rows of each class, > 0. stddev: Standard deviation of the noise in ``products``.

    Correlations are shrunk towards their mean over the classes, and this mean towards 0, by empirical Bayes.
    """
    attributes = below.shape[1]
    first, second = np.triu_indices(attributes, 1)
    low = np.clip(below, _RAREST, 1 - _RAREST)
    both_low = (products / sizes[:, None] - 1 + 2 * low[:, first] + 2 * low[:, second]) / 4
    cuts = ndtri(low)
    density = np.exp(-np.square(cuts) / 2) / np.sqrt(2 * np.pi)
    raw = correlation_of(cuts[:, first], cuts[:, second], both_low)
    # The chance of a corner grows with the correlation as the density at the cuts, exactly so at 0.
    noise = np.square(stddev / (4 * sizes[:, None] * density[:, first] * density[:, second]))
    noise = noise + (1 - np.square(raw)) / sizes[:, None]  # Of the rows themselves, roughly.
    shrunk = _shrunk_to_mean(raw, noise)
    return np.stack([_positive(attributes, row) for row in shrunk])


def correlation_of(first: _Vector, second: _Vector, both_below: _Vector) -> _Vector:
    """The correlation of two standard normal variables that are both below their cuts with a given chance.

    first, second: Cuts, of one shape.
    both_below: Chances, of that shape; one that no correlation has gives the nearest.
    """
    wanted = both_below - ndtr(first) * ndtr(second)
    limit = np.arcsin(_LARGEST)
    low, high = np.full(wanted.shape, -limit), np.full(wanted.shape, limit)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_above = corner_excess(first, second, middle) > wanted
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return np.asarray(np.sin((low + high) / 2))


def corner_excess(first: _Vector, second: _Vector, angle: _Vector) -> _Vector:
    """P(X < first, Y < second) - P(X < first) P(Y < second) for normal X and Y of correlation sin(angle).

    Source: the derivative of the bivariate normal distribution by its correlation is its density (Plackett, 1954);
    integrated over the angle by Gauss and Legendre's rule.
    """
    excess = np.zeros(angle.shape)
    squares, product = np.square(first) + np.square(second), 2 * first * second
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        at = angle * (node + 1) / 2
        excess += weight * np.exp((product * np.sin(at) - squares) / (2 * np.square(np.cos(at))))
    return np.asarray(excess * angle / (4 * np.pi))


def _shrunk_to_mean(raw: _Vector, noise: _Vector) -> _Vector:
    """Empirical Bayes at two levels: classes around their mean, and means around 0; float64 [classes, pairs]."""
    precision = 1 / noise
    mean = (precision * raw).sum(axis=0) / precision.sum(axis=0)
    mean = mean * _kept(mean, 1 / precision.sum(axis=0))
    if len(raw) == 1:
        return np.asarray(mean[None])
    apart = raw - mean
    return np.stack([mean + row * _kept(row, variance) for row, variance in zip(apart, noise, strict=True)])


def _kept(values: _Vector, noise: _Vector) -> _Vector:
    """The part of each value that its posterior mean keeps, if values are normal around 0 and noise is known."""
    precision = 1 / np.square(noise)
    spread = max(0.0, float((precision * (np.square(values) - noise)).sum() / precision.sum()))
    return np.asarray(spread / (spread + noise))


def _positive(attributes: int, pairs: _Vector) -> _Vector:
    """The matrix of these correlations without its negative eigenvalues, scaled back to diagonal 1."""
    matrix = np.eye(attributes)
    matrix[np.triu_indices(attributes, 1)] = pairs
    values, vectors = np.linalg.eigh(matrix, UPLO="U")
    matrix = (vectors * np.maximum(values, _SMALLEST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    return np.asarray(matrix / np.outer(scale, scale))
