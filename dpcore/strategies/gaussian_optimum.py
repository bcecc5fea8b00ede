"""The best strategy for queries about one attribute under Gaussian noise, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FASTEST, _SLOWER = 1.9, 0.8
_LEAST = 1e-12  # Of the largest v: below it the rounding of eigenvectors would be all that X shows of a value.


@dataclass(frozen=True, eq=False)
class CertifiedGram:
    """A strategy A by its Gram matrix, and how far it can be from the best.

    gram: X = A'A, float64 [n, n]; its largest diagonal entry, the squared sensitivity of A, is 1.
    error: tr(V X^+), the squared error of all answers together at unit noise.
    bound: No strategy with Gaussian noise has a smaller error; error and bound hold up to the rounding of doubles.
    steps: Eigendecompositions that it took.
    """

    gram: NDArray[np.float64]
    error: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """error / bound - 1."""
        return self.error / self.bound - 1


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the dual stands: v > 0 with sum 1, the eigenvalues and vectors of K = D V D, D = diag(v^(1/2))."""

    v: NDArray[np.float64]
    roots: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def at(cls, workload: NDArray[np.float64], v: NDArray[np.float64]) -> _Point:
        v = np.maximum(v, _LEAST * v.max())
        v = v / v.sum()
        d = np.sqrt(v)
        values, vectors = np.linalg.eigh(d[:, None] * workload * d)
        values[values < values[-1] * len(v) * np.finfo(np.float64).eps] = 0.0  # Rounding makes zeros of either sign.
        return cls(v, np.sqrt(values), vectors)

    @property
    def bound(self) -> float:
        """T(v)^2 / sum(v), the dual function."""
        return float(self.roots.sum() ** 2)

    @property
    def ratios(self) -> NDArray[np.float64]:
        """g = diag(K^(1/2)) sum(v) / (v T): the dual ascends where it is above 1, and the gap is max(g) - 1."""
        return np.asarray((self.vectors**2 @ self.roots) / (self.v * self.roots.sum()))

    def primal(self, support: NDArray[np.bool_], steps: int) -> CertifiedGram:
        """X = D^-1 K^(1/2) D^-1, scaled, with zeros for values of the attribute that no query reads."""
        scaled = (self.vectors * np.sqrt(self.roots)) / np.sqrt(self.v)[:, None]
        gram = np.zeros((support.size, support.size))
        largest = float(self.ratios.max())
        gram[np.ix_(support, support)] = scaled @ scaled.T / (largest * self.roots.sum())
        return CertifiedGram(gram, self.bound * largest, self.bound, steps)


def gaussian_optimum(workload: NDArray[np.float64], gap: float = 1e-7, steps: int = 2000) -> CertifiedGram:
    """min tr(V X^-1) over positive semidefinite X with diag(X) <= 1: the matrix mechanism with Gaussian noise.

    workload: V = W'W, float64 [n, n], symmetric, positive semidefinite and not 0.
    gap, steps: Stops once error / bound - 1 is at most ``gap``, or after so many eigendecompositions.

    The problem is convex, and its dual is to maximise T(v)^2 / sum(v) over v >= 0, with T(v) = tr (D V D)^(1/2) and
    D = diag(v^(1/2)); every v gives a bound, v = 1 the SVD bound (thesis, Definition 12). At the optimum v is
    proportional to diag (D V D)^(1/2), of which the ascent v <- v g^omega is an over-relaxed fixed point.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its dual and the iteration are this project's.

    Raises ValueError for a workload of zeros.
    """
    support = workload.diagonal() > 0
    if not support.any():
        raise ValueError("a workload of zeros; want a query that reads a value")
    read = workload[np.ix_(support, support)]
    flat = _Point.at(read, np.ones(len(read)))
    point = best = _Point.at(read, flat.vectors**2 @ flat.roots)
    omega, done = _FASTEST, 2
    while best.ratios.max() > 1 + gap and done < steps:
        ahead = _Point.at(read, point.v * point.ratios**omega)
        if ahead.bound < point.bound:
            omega = max(1.0, omega * _SLOWER)
        point, done = ahead, done + 1
        if point.bound * point.ratios.max() < best.bound * best.ratios.max():
            best = point
    return best.primal(support, done)
