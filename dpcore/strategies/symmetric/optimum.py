"""The best strategy for a union of products under Gaussian noise, through its symmetry, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore.strategies.one_attribute.dual_fixed_point import MIN_RELATIVE_V, DualPoint, ascend_dual, root_spectra
from dpcore.strategies.symmetric.symmetry import SymmetricGram

Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SymmetricOptimum:
    """A strategy A by the blocks of its Gram matrix, and how far it can be from the best.

    workload: V, whose blocks those of A'A are in step with.
    grams: X = A'A, float64 [k, k] a block. The largest diagonal entry of X, the squared sensitivity of A, is 1.
    error: tr(V X^+), the squared error of all answers together at unit noise.
    bound: No strategy with Gaussian noise has a smaller error; error and bound hold up to the rounding of doubles.
    steps: How often all blocks were decomposed.
    """

    workload: SymmetricGram
    grams: tuple[Real, ...]
    error: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """error / bound - 1."""
        return self.error / self.bound - 1


@dataclass(frozen=True, eq=False)
class _Point(DualPoint):
    """v on the orbits that are read, a unit of it all over their cells."""

    @classmethod
    def at(cls, workload: SymmetricGram, read: NDArray[np.bool_], v: Real) -> _Point:
        v = np.maximum(v, MIN_RELATIVE_V * v.max())
        v = v / (v @ workload.sizes[read])
        full = _spread(v, read)
        size = max(len(block.gram) for block in workload.blocks)
        roots, vectors = root_spectra(((block.gram, np.sqrt(full[block.orbits])) for block in workload.blocks), size)
        total = sum(block.multiplicity * float(part.sum()) for block, part in zip(workload.blocks, roots, strict=True))
        diagonal = workload.diagonal([columns**2 @ part for columns, part in zip(vectors, roots, strict=True)])
        return cls(v, total, diagonal[read] / (v * total), roots, vectors)

    def grams(self, workload: SymmetricGram, read: NDArray[np.bool_]) -> tuple[Real, ...]:
        """X = D^-1 K^(1/2) D^-1, scaled, block by block; 0 where no query reads."""
        inverse = _spread(1 / np.sqrt(self.v), read)
        grams = []
        for block, roots, vectors in zip(workload.blocks, self.roots, self.vectors, strict=True):
            scaled = vectors * np.sqrt(roots) * inverse[block.orbits][:, None]
            grams.append(scaled @ scaled.T / (self.ratios.max() * self.total))
        return tuple(grams)


def symmetric_optimum(workload: SymmetricGram, gap: float = 1e-6, steps: int = 1000) -> SymmetricOptimum:
    """min tr(V X^-1) over positive semidefinite X with diag(X) <= 1: the matrix mechanism with Gaussian noise.

    gap, steps: Stops once error / bound - 1 is at most ``gap``, or after so many decompositions of all blocks.

    The problem is convex and stays the same when exchangeable values are swapped, so that a best X does too: it is made
    of blocks as V is, and the multipliers v of its dual are constant on orbits. They ascend as in ``gaussian_optimum``,
    with eigenvectors of the blocks instead of those of V.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its dual and the blocks are this project's.

    Raises ValueError for a workload of zeros.
    """
    read = workload.cells > 0
    if not read.any():
        raise ValueError("a workload of zeros; want a query that reads a value")
    best, bound, done = ascend_dual(partial(_Point.at, workload, read), workload.sizes[read], gap, steps)
    return SymmetricOptimum(workload, best.grams(workload, read), best.error, bound, done)


def _spread(values: Real, read: NDArray[np.bool_]) -> Real:
    full = np.zeros(len(read))
    full[read] = values
    return full
