"""The variance of each answer that least squares reconstructs from measured symmetric queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Product, Products, SymmetricQueries
from dpcore.queries.residual_matrices import residual_scale
from dpcore.strategies.symmetric.strategy import SymmetricStrategy

Real = NDArray[np.float64]

_MAX_ENTRIES: Final = 1 << 24  # Entries of W A^+ held in memory at once: 128 MiB.


def answer_variances(strategy: SymmetricStrategy, queries: Products) -> Real:
    """The variance |w A^+|^2 of each answer w of a workload at noise of variance 1: float64 [queries.size].

    strategy: The measured strategy A.
    queries: The workload, whose answers A determines. Its domain contains the attributes of ``strategy.queries``.

    The blocks are orthogonal, so the variance of an answer is a sum over the blocks. Let w be the product of the rows
    w_i, and B^+ the inverse of the block's matrix. The block contributes |(x)_free s_i B^+|^2 times, for each chosen
    class C, (|w_C|^2 - (1'w_C)^2 / |C|) / c^2. Here s_i are the sums of w_i over the classes, and w_C are its entries
    on C. Rows with the same sums of w_i and of w_i^2 over all classes have the same variance, which is computed once.
    """
    parts = [_term_variances(strategy, term) * (term.weight / queries.denominator) ** 2 for term in queries.terms]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows w of one attribute's queries; rows with equal ``sums`` and ``within`` are stored once.

    sums: float64 [distinct, classes], the sum of a row over each class.
    within: float64 [distinct, classes], |w_C|^2 - (1'w_C)^2 / |C| for each class.
    indices: intp [rows], the index of each row among the distinct ones.
    """

    sums: Real
    within: Real
    indices: NDArray[np.intp]

    @classmethod
    def of(cls, queries: SymmetricQueries, axis: int, term: Product) -> _Rows:
        """The distinct rows of one term's queries about one attribute."""
        name, classes, members = queries.clique[axis], queries.classes[axis], queries.axes[axis].members
        named = name in term.clique
        rows = term.matrices[term.clique.index(name)] if named else np.ones((1, len(classes)), dtype=np.int64)
        member = (classes[:, None] == np.arange(len(members))).astype(np.int64)
        class_sums, indices = np.unique(np.hstack([rows @ member, rows**2 @ member]), axis=0, return_inverse=True)
        sums, squares = np.hsplit(class_sums, 2)
        # Computed from integers, so that it is exactly 0 for a row that is constant on a class.
        within = (squares * members - sums**2) / members
        return cls(sums.astype(np.float64), within, indices.ravel())


def _term_variances(strategy: SymmetricStrategy, term: Product) -> Real:
    """Variances of one term, float64 [term.size], without its weight."""
    queries = strategy.queries
    rows = [_Rows.of(queries, axis, term) for axis in range(len(queries.clique))]
    total = np.zeros([len(axis_rows.sums) for axis_rows in rows])
    for block, inverse in zip(queries.blocks, strategy.inverses, strict=True):
        residual_factor = np.ones([1] * len(rows))
        for axis in block.chosen:
            at = block.choice[axis]
            scale = residual_scale(int(queries.axes[axis].members[at]))
            factor = _along(rows[axis].within[:, at].ravel() / scale**2, axis, len(rows))
            residual_factor = residual_factor * factor
        if residual_factor.any():
            squared_norms = _squared_norms([rows[axis].sums for axis in block.free], inverse)
            total += residual_factor * squared_norms.reshape(
                [1 if axis in block.chosen else len(axis_rows.sums) for axis, axis_rows in enumerate(rows)]
            )
    return total[np.ix_(*(axis_rows.indices for axis_rows in rows))].ravel()


def _squared_norms(factors: list[Real], inverse: Real) -> Real:
    """|(x) s_i B^+|^2 of each combination of rows s_i, float64 [rows of all factors].

    factors: float64 [rows, classes], the rows s_i of each free attribute.
    inverse: B^+, float64 [g, r].
    """
    if not factors:
        return np.asarray((inverse**2).sum(axis=1))
    first_factor, others = factors[0], factors[1:]
    columns = inverse.shape[1]
    size = math.prod(len(factor) for factor in others) * columns
    # All factors but the first are applied at once; the first is applied in chunks of its rows, to bound the memory.
    partial = inverse.reshape([*(factor.shape[1] for factor in factors), columns])
    for axis, factor in enumerate(others, start=1):
        partial = np.moveaxis(np.tensordot(factor, partial, axes=(1, axis)), 0, axis)
    flat = partial.reshape(first_factor.shape[1], -1)
    chunk_rows = max(1, _MAX_ENTRIES // max(size, 1))
    parts = []
    for start in range(0, len(first_factor), chunk_rows):
        chunk = first_factor[start : start + chunk_rows] @ flat
        parts.append((chunk.reshape(-1, columns) ** 2).sum(axis=1))
    return np.concatenate(parts)


def _along(values: Real, axis: int, axes: int) -> Real:
    """A vector as an array of ``axes`` dimensions that varies along ``axis`` alone."""
    return values.reshape([-1 if index == axis else 1 for index in range(axes)])
