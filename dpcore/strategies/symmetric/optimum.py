"""The optimal strategy for a union of products under Gaussian noise, block by block, with a certificate."""

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
    """A strategy A, given by the blocks of its Gram matrix, with a lower bound on the error of every strategy.

    workload: V, with the same block structure as A'A.
    grams: X = A'A, float64 [k, k] per block. The largest diagonal entry of X, the squared sensitivity of A, is 1.
    error: tr(V X^+), the squared error of all answers together at unit noise, up to the rounding of doubles.
    bound: A lower bound on the error of every strategy with Gaussian noise, up to the rounding of doubles.
    steps: How many times the eigendecomposition of all blocks was computed.
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
    """A point of the dual with one entry of v per orbit that some query reads; all cells of the orbit share it."""

    @classmethod
    def at(cls, workload: SymmetricGram, is_read: NDArray[np.bool_], v: Real) -> _Point:
        """The point at v, float64 [read orbits]; ``is_read``, bool [orbits], says which orbits some query reads."""
        v = np.maximum(v, MIN_RELATIVE_V * v.max())
        v = v / (v @ workload.sizes[is_read])
        v_of_orbits = _on_all_orbits(v, is_read)
        size = max(len(block.gram) for block in workload.blocks)
        scaled_blocks = ((block.gram, np.sqrt(v_of_orbits[block.orbits])) for block in workload.blocks)
        roots, vectors = root_spectra(scaled_blocks, size)
        total = sum(block.multiplicity * float(part.sum()) for block, part in zip(workload.blocks, roots, strict=True))
        diagonal = workload.diagonal([columns**2 @ part for columns, part in zip(vectors, roots, strict=True)])
        return cls(v, total, diagonal[is_read] / (v * total), roots, vectors)

    def grams(self, workload: SymmetricGram, is_read: NDArray[np.bool_]) -> tuple[Real, ...]:
        """X = D^-1 K^(1/2) D^-1, scaled to sensitivity 1, block by block; 0 on orbits that no query reads."""
        inverse = _on_all_orbits(1 / np.sqrt(self.v), is_read)
        grams = []
        for block, roots, vectors in zip(workload.blocks, self.roots, self.vectors, strict=True):
            scaled = vectors * np.sqrt(roots) * inverse[block.orbits][:, None]
            grams.append(scaled @ scaled.T / (self.ratios.max() * self.total))
        return tuple(grams)


def symmetric_optimum(workload: SymmetricGram, gap: float = 1e-6, steps: int = 1000) -> SymmetricOptimum:
    """The X that attains min tr(V X^-1) over positive semidefinite X with diag(X) <= 1: the optimal matrix mechanism.

    workload: V, in blocks.
    gap: Stop once error / bound - 1 is at most this.
    steps: Maximum number of eigendecompositions of all blocks.

    The problem is convex and unchanged when exchangeable values are swapped. Some optimal X is therefore unchanged as
    well: it has the block structure of V, and the dual multipliers v are constant on orbits. The dual is ascended as in
    ``gaussian_optimum``, with eigendecompositions of the blocks instead of V.

    Raises ValueError for a workload of zeros.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its dual and the blocks are this project's.
    """
    is_read = workload.cells > 0
    if not is_read.any():
        raise ValueError("a workload of zeros; want a query that reads a value")
    best, bound, steps_taken = ascend_dual(partial(_Point.at, workload, is_read), workload.sizes[is_read], gap, steps)
    return SymmetricOptimum(workload, best.grams(workload, is_read), best.error, bound, steps_taken)


def _on_all_orbits(values: Real, is_read: NDArray[np.bool_]) -> Real:
    """The values on the orbits that are read, and 0 on all other orbits."""
    full = np.zeros(len(is_read))
    full[is_read] = values
    return full
