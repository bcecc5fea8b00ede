"""The optimal strategy for queries about one attribute under Gaussian noise, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore.strategies.one_attribute.dual_fixed_point import MIN_RELATIVE_V, DualPoint, ascend_dual, root_spectra

Real = NDArray[np.float64]

_SQRT_2 = 2**0.5


@dataclass(frozen=True, eq=False)
class CertifiedGram:
    """A strategy A, given by its Gram matrix, with a lower bound on the error of every strategy.

    gram: X = A'A, float64 [n, n]. Its largest diagonal entry, the squared sensitivity of A, is 1.
    error: tr(V X^+), the squared error of all answers together at unit noise, up to the rounding of doubles.
    bound: A lower bound on the error of every strategy with Gaussian noise, up to the rounding of doubles.
    steps: The number of eigendecompositions computed.
    """

    gram: Real
    error: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """The relative excess error / bound - 1."""
        return self.error / self.bound - 1


@dataclass(frozen=True)
class _MirrorBasis:
    """A basis that splits matrices with mirror symmetry into two blocks.

    A matrix is symmetric in this sense if reversing the order of the values leaves it unchanged. The basis consists of
    the sums and the differences of each value and its mirror image, divided by sqrt(2), and of the middle value if
    there is one. Without the symmetry it is the standard basis, with one block.

    size: The number of values.
    symmetric: Whether the matrices have the symmetry.
    """

    size: int
    symmetric: bool

    @property
    def half(self) -> int:
        """The number of values whose mirror image comes after them."""
        return self.size // 2

    def split(self, matrix: Real) -> list[Real]:
        """The diagonal blocks of a symmetric matrix in this basis."""
        if not self.symmetric:
            return [matrix]
        half, longer = self.half, self.size - self.half
        even, odd = matrix[:longer, :longer].copy(), matrix[:half, :half].copy()
        mirrored = matrix[:half, ::-1][:, :half]
        even[:half, :half] += mirrored
        odd -= mirrored
        even[:half, half:] *= _SQRT_2
        even[half:, :half] *= _SQRT_2
        return [even, odd]

    def join(self, blocks: list[Real]) -> Real:
        """The inverse of ``split``."""
        if not self.symmetric:
            return blocks[0]
        half, longer = self.half, self.size - self.half
        even, odd = blocks
        matrix = np.empty((self.size, self.size))
        matrix[:longer, :longer] = even
        matrix[:half, half:longer] /= _SQRT_2
        matrix[half:longer, :half] /= _SQRT_2
        matrix[:half, :half] += odd
        matrix[:half, :half] /= 2
        matrix[:half, longer:] = (even[:half, :half] - odd)[:, ::-1] / 2
        matrix[half:longer, longer:] = matrix[half:longer, :half][:, ::-1]
        matrix[longer:] = matrix[:half][::-1, ::-1]
        return matrix

    def diagonal(self, parts: list[Real]) -> Real:
        """The diagonal of a matrix, from the diagonals of its blocks."""
        if not self.symmetric:
            return parts[0]
        even, odd = parts
        first_half = (even[: self.half] + odd) / 2
        return np.concatenate([first_half, even[self.half :], first_half[::-1]])


@dataclass(frozen=True, eq=False)
class _Point(DualPoint):
    """A point of the dual with one entry of v per value of the attribute."""

    @classmethod
    def at(cls, basis: _MirrorBasis, workload: list[Real], v: Real) -> _Point:
        """The point at v; ``workload`` holds the blocks of V in the basis."""
        v = np.maximum(v, MIN_RELATIVE_V * v.max())
        v = v / v.sum()
        roots, vectors = root_spectra(((block, np.sqrt(v[: len(block)])) for block in workload), basis.size)
        total = sum(float(part.sum()) for part in roots)
        diagonal = basis.diagonal([columns**2 @ part for part, columns in zip(roots, vectors, strict=True)])
        return cls(v, total, diagonal / (v * total), roots, vectors)

    def gram(self, basis: _MirrorBasis) -> Real:
        """X = D^-1 K^(1/2) D^-1, scaled to sensitivity 1."""
        blocks = []
        for roots, vectors in zip(self.roots, self.vectors, strict=True):
            scaled = (vectors * np.sqrt(roots)) / np.sqrt(self.v[: len(roots)])[:, None]
            blocks.append(scaled @ scaled.T / (self.ratios.max() * self.total))
        return basis.join(blocks)


def gaussian_optimum(workload: Real, gap: float = 1e-7, steps: int = 2000) -> CertifiedGram:
    """The X that attains min tr(V X^-1) over positive semidefinite X with diag(X) <= 1: the optimal matrix mechanism.

    workload: V = W'W, float64 [n, n], symmetric, positive semidefinite and not 0.
    gap: Stop once error / bound - 1 is at most this.
    steps: Maximum number of eigendecompositions.

    The problem is convex. Its dual maximises T(v)^2 / sum(v) over v >= 0, with T(v) = tr (D V D)^(1/2) and
    D = diag(v^(1/2)). Every v gives a lower bound; v = 1 gives the SVD bound (thesis, Definition 12). At the optimum, v
    is proportional to diag (D V D)^(1/2). Replacing v by that diagonal never lowers the dual, because log T is convex
    in log v, and Anderson acceleration makes this fixed point converge in few steps. Each step takes one
    eigendecomposition. If reversing the order of the values leaves V exactly unchanged, a step takes two of half the
    size, a quarter of the work. Memory is about eight times that of V, or four times with the symmetry.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its dual and the iteration are this project's.

    Raises ValueError for a workload of zeros.
    """
    support = workload.diagonal() > 0
    if not support.any():
        raise ValueError("a workload of zeros; want a query that reads a value")
    restricted = workload if support.all() else workload[np.ix_(support, support)]
    size = len(restricted)
    basis = _MirrorBasis(size, size > 1 and np.array_equal(restricted, restricted[::-1, ::-1]))
    blocks = basis.split(restricted)
    best, bound, steps_taken = ascend_dual(partial(_Point.at, basis, blocks), np.ones(size), gap, steps)
    gram = best.gram(basis)
    if not support.all():
        gram, restricted_gram = np.zeros(workload.shape), gram
        gram[np.ix_(support, support)] = restricted_gram
    return CertifiedGram(gram, best.error, bound, steps_taken)
