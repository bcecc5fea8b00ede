"""The optimal strategy for a union of products under Gaussian noise, by its symmetry, with a certificate."""

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
    """A strategy A by the blocks of its Gram matrix, and a bound on how far its error can be from the optimum.

    workload: V, with one block for each block of A'A.
    grams: X = A'A, float64 [k, k] per block. The largest diagonal entry of X, the squared sensitivity of A, is 1.
    error: tr(V X^+), the squared error of all answers together at unit noise, up to the rounding of doubles.
    bound: A lower bound on the error of every strategy with Gaussian noise, up to the rounding of doubles.
    steps: The number of times that all blocks were decomposed.
    """

    workload: SymmetricGram
    grams: tuple[Real, ...]
    error: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """The relative excess error / bound - 1."""
        return self.error / self.bound - 1


@dataclass(frozen=True, eq=False)
class _Point(DualPoint):
    """A point with one entry of v per orbit that a query reads, the same for all cells of the orbit."""

    @classmethod
    def at(cls, workload: SymmetricGram, read: NDArray[np.bool_], v: Real) -> _Point:
        """The point at v, float64 [read orbits]; read: bool [orbits], whether a query reads the orbit."""
        v = np.maximum(v, MIN_RELATIVE_V * v.max())
        v = v / (v @ workload.sizes[read])
        full = _on_all_orbits(v, read)
        size = max(len(block.gram) for block in workload.blocks)
        roots, vectors = root_spectra(((block.gram, np.sqrt(full[block.orbits])) for block in workload.blocks), size)
        total = sum(block.multiplicity * float(part.sum()) for block, part in zip(workload.blocks, roots, strict=True))
        diagonal = workload.diagonal([columns**2 @ part for columns, part in zip(vectors, roots, strict=True)])
        return cls(v, total, diagonal[read] / (v * total), roots, vectors)

    def grams(self, workload: SymmetricGram, read: NDArray[np.bool_]) -> tuple[Real, ...]:
        """X = D^-1 K^(1/2) D^-1, scaled, block by block; 0 where no query reads."""
        inverse = _on_all_orbits(1 / np.sqrt(self.v), read)
        grams = []
        for block, roots, vectors in zip(workload.blocks, self.roots, self.vectors, strict=True):
            scaled = vectors * np.sqrt(roots) * inverse[block.orbits][:, None]
            grams.append(scaled @ scaled.T / (self.ratios.max() * self.total))
        return tuple(grams)


def symmetric_optimum(workload: SymmetricGram, gap: float = 1e-6, steps: int = 1000) -> SymmetricOptimum:
    """The X that attains min tr(V X^-1) over positive semidefinite X with diag(X) <= 1: the optimal matrix mechanism.

    workload: V, in blocks.
    gap: The iteration stops once error / bound - 1 is at most this.
    steps: The iteration stops after this many decompositions of all blocks.

    The problem is convex and does not change when exchangeable values are swapped, so that neither does some optimal X:
    it has the same blocks as V, and the multipliers v of its dual are constant on orbits. They ascend as in
    ``gaussian_optimum``, with eigenvectors of the blocks instead of those of V.

    Raises ValueError for a workload of zeros.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its dual and the blocks are this project's.
    """
    read = workload.cells > 0
    if not read.any():
        raise ValueError("a workload of zeros; want a query that reads a value")
    best, bound, steps_taken = ascend_dual(partial(_Point.at, workload, read), workload.sizes[read], gap, steps)
    return SymmetricOptimum(workload, best.grams(workload, read), best.error, bound, steps_taken)


def _on_all_orbits(values: Real, read: NDArray[np.bool_]) -> Real:
    """The values on the orbits that are read, and 0 on the others."""
    full = np.zeros(len(read))
    full[read] = values
    return full
