"""An integer strategy for a union of Kronecker products under Gaussian noise, close to the symmetric optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dpcore.queries import BlockQueries, Products, SymmetricQueries, rounded_rows
from dpcore.queries.residual_matrices import residual_scale
from dpcore.queries.symmetric import LARGEST_ENTRY
from dpcore.strategies.symmetric.matrix import SymmetricMatrix
from dpcore.strategies.symmetric.optimum import SymmetricOptimum
from dpcore.strategies.symmetric.symmetry import Block, SymmetricGram

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

_MIN_RESIDUAL: Final = 1e-9  # A row with a smaller relative norm outside the span of others counts as dependent.


@final
@dataclass(frozen=True, eq=False)
class SymmetricStrategy:
    """Integer queries A from which the answers of a workload W can be reconstructed without bias.

    queries: A, block by block.
    inverses: One pseudo-inverse per block, float64 [g, r]. It maps the answers of the block's matrix to least-squares
        values of the block's combinations of classes.
    variance: tr(V (A'A)^+), the weighted squared error of all answers of W together if each answer of A has noise of
        variance 1.
    bound: A lower bound on the ``error`` of every strategy with Gaussian noise.
    """

    queries: SymmetricQueries
    inverses: tuple[Real, ...]
    variance: float
    bound: float

    @property
    def error(self) -> float:
        """|A|^2 times ``variance``: the squared error at unit noise, with |A| the largest L2 norm of a column."""
        return self.matrix.sensitivity(2) ** 2 * self.variance

    @property
    def gap(self) -> float:
        """The relative excess error / bound - 1."""
        return self.error / self.bound - 1

    def estimate(self, answers: Real) -> Real:
        """A^+ y, float64 [cells] in C order: the least-squares table of least norm.

        answers: y, the measured answers, float64 [rows of A].

        W A^+ y are the best linear unbiased answers of the workload. The blocks are orthogonal, so each is solved
        separately.
        """
        matrix, parts = self.matrix, []
        for block, inverse, part in zip(self.queries.blocks, self.inverses, self.matrix.parts(answers), strict=True):
            parts.append(inverse @ part / matrix.scale(block) ** 2)
        return matrix.transposed_read(parts)

    @property
    def matrix(self) -> SymmetricMatrix:
        """A as a real matrix."""
        return SymmetricMatrix(self.queries)


def symmetric_strategy(queries: Products, optimum: SymmetricOptimum, bits: int = 24) -> SymmetricStrategy:
    """The optimum, rounded to integer queries.

    queries: The workload from which ``optimum.workload`` was computed.
    optimum: The optimal Gram matrix, in blocks.
    bits: Weights are rounded to multiples of 2^-bits of the largest weight.

    In each block the queries are weights @ basis. The basis consists of integer rows that span the rows of the
    workload, so the rounded queries still determine all of its answers. Sensitivity and variance are those of the
    rounded queries.

    Raises ValueError if rounding sets the weight of a basis row to 0, or if an integer exceeds 2^30.
    """
    workload = optimum.workload
    bases, weights = [], []
    for block, gram in zip(workload.blocks, optimum.grams, strict=True):
        basis = _Basis.of(queries, workload, block)
        bases.append(basis)
        weights.append(basis.factor(gram) / _scale(workload, block))
    largest = max(float(np.abs(weight).max()) for weight in weights)
    blocks, inverses, variance = [], [], 0.0
    for block, basis, weight in zip(workload.blocks, bases, weights, strict=True):
        rounded, _ = rounded_rows(weight / largest, bits)
        if not rounded.diagonal().all():
            raise ValueError(f"rounding to {bits} bits makes a weight 0; want more bits")
        if (np.abs(rounded).astype(np.float64) @ np.abs(basis.rows)).max() > LARGEST_ENTRY:
            raise ValueError(f"a strategy has entries above 2^30 at {bits} bits; want fewer bits")
        blocks.append(BlockQueries(block.choice, rounded @ basis.rows))
        weighted_inverse = solve_triangular(rounded.astype(np.float64).T, basis.inverse.T, lower=True).T
        inverses.append(weighted_inverse / basis.roots[:, None])
        block_variance = float(np.einsum("ij,ij->", block.gram @ weighted_inverse, weighted_inverse))
        variance += block.multiplicity * block_variance / _scale(workload, block) ** 2
    measured = SymmetricQueries(workload.domain, workload.domain.names, workload.classes, tuple(blocks))
    return SymmetricStrategy(measured, tuple(inverses), variance, optimum.bound)


@dataclass(frozen=True, eq=False)
class _Basis:
    """Integer rows that span the rows of a workload in one block.

    rows: int64 [r, g], one column per combination of classes.
    roots: float64 [g], the square root of the number of cells of each combination; rows * roots are the rows in the
        basis of ``Block.gram``.
    inverse: float64 [g, r], the pseudo-inverse of rows * roots.
    """

    rows: Integers
    roots: Real
    inverse: Real

    @classmethod
    def of(cls, queries: Products, workload: SymmetricGram, block: Block) -> _Basis:
        """A basis of the workload's rows in one block."""
        free = [index for index, at in enumerate(block.choice) if at is None]
        roots = reduce(np.multiply.outer, [np.sqrt(workload.members[index]) for index in free], np.ones(())).ravel()
        distinct: dict[bytes, Integers] = {}
        for term in block.terms.tolist():
            factors = [_class_constant_rows(queries, workload, term, index) for index in free]
            rows = reduce(_kron, factors, np.ones((1, 1), dtype=np.int64))
            distinct[rows.tobytes()] = rows
        rows = _independent_rows(np.unique(np.vstack(list(distinct.values())), axis=0), roots)
        return cls(rows, roots, np.asarray(np.linalg.pinv(rows * roots), dtype=np.float64))

    def factor(self, gram: Real) -> Real:
        """The upper triangular B such that the Gram matrix of B rows * roots is ``gram``."""
        reduced = self.inverse.T @ gram @ self.inverse
        return np.asarray(np.linalg.cholesky((reduced + reduced.T) / 2).T)


def _class_constant_rows(queries: Products, workload: SymmetricGram, term: int, index: int) -> Integers:
    """Integer rows, one column per class, that span the class-constant part of one attribute's queries."""
    name, classes, members = queries.domain.names[index], workload.classes[index], workload.members[index]
    product = queries.terms[term]
    if name not in product.clique:
        return np.ones((1, len(members)), dtype=np.int64)
    indicator = (classes[:, None] == np.arange(len(members))).astype(np.int64)
    rows = product.matrices[product.clique.index(name)] @ indicator * (math.lcm(*members.tolist()) // members)
    rows = rows[rows.any(axis=1)]
    return _independent_rows(np.unique(rows // np.gcd.reduce(rows, axis=1)[:, None], axis=0), np.sqrt(members))


def _independent_rows(rows: Integers, roots: Real) -> Integers:
    """Linearly independent rows that span all rows, by a pivoted QR decomposition."""
    real = rows * roots
    units = real / np.linalg.norm(real, axis=1)[:, None]
    _, triangle, order = qr(units.T, mode="economic", pivoting=True)
    residuals = np.abs(triangle.diagonal())
    return np.asarray(rows[np.sort(order[: len(residuals)][residuals > _MIN_RESIDUAL])])


def _scale(workload: SymmetricGram, block: Block) -> float:
    """The c such that M'M is c^2 times a projection, for the Kronecker product M of the chosen residual matrices."""
    pairs = zip(workload.members, block.choice, strict=True)
    return math.prod(residual_scale(int(members[at])) for members, at in pairs if at is not None)


def _kron(left: Integers, right: Integers) -> Integers:
    return np.asarray(np.kron(left, right))
