"""How far one row moves the integer answers of symmetric queries. TRUSTED.

A row in cell x adds the column a(x) of the stacked matrix A. In block b, with matrix m and g(x) the combination of
classes of x, the columns of x and y have the inner product m[:, g(x)]'m[:, g(y)] times <M_C[:, x_i], M_C[:, y_i]> for
each chosen class C, which is 0 unless both values are of C. As M_C'M_C = c^2 (I - 11' / |C|), that is one number where
the values are the same, and another one where they are not (``residual_matrix``); and all columns of M_C have the same
absolute entries but for their order. So |a(x)|_1 and |a(x)|_2 depend on the orbit of x alone, the class of each of its
values, and <a(x), a(y)> on both orbits and on the attributes in which x and y have the same value. There are few of
either, and all of them are compared. All of it is computed from the integers that are applied to the data, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import BlockQueries, SymmetricQueries

Exact = NDArray[np.object_]

_LARGEST_PAIRS: Final = 1 << 20  # Of orbits, which are all compared.
_LIMB: Final = 15  # Bits: an entry has two of them, and 2^20 products of two limbs sum to 2^50 at most.


def largest_l1(queries: SymmetricQueries) -> int:
    """The largest L1 norm of a column of A, exact."""
    return int(_norms(queries, 1).max())


def largest_squared_l2(queries: SymmetricQueries) -> int:
    """The largest squared L2 norm of a column of A, exact."""
    return int(_norms(queries, 2).max())


def largest_squared_exchange(queries: SymmetricQueries) -> int:
    """The largest of |a(x) - a(y)|_2^2 and |a(x)|_2^2 over all cells x, y: exchanging a row, or losing one.

    Exact. For more than _LARGEST_PAIRS pairs of orbits 4 times the largest squared norm, which is never below it.
    """
    norms = _norms(queries, 2)
    largest = int(norms.max())
    axes = [_Pairs.of(queries, axis) for axis in range(len(queries.clique))]
    if math.prod(len(pairs.left) for pairs in axes) > _LARGEST_PAIRS:
        return 4 * largest
    first, second = norms[np.ix_(*(pairs.left for pairs in axes))], norms[np.ix_(*(pairs.right for pairs in axes))]
    return max(largest, int((first + second - 2 * _inner_products(queries, axes)).max()))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Two values of one attribute, by all that inner products depend on.

    left, right: intp [pairs], their classes: first all pairs of classes, with one value where they are the same; then
        two values of one class, where it has them.
    same: bool [pairs], whether it is one value.
    """

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    same: NDArray[np.bool_]

    @classmethod
    def of(cls, queries: SymmetricQueries, axis: int) -> _Pairs:
        members = queries.axes[axis].members
        left, right = (each.ravel() for each in np.indices((len(members), len(members))))
        several = np.flatnonzero(members > 1)
        same = np.concatenate([left == right, np.zeros(len(several), dtype=np.bool_)])
        return cls(np.concatenate([left, several]), np.concatenate([right, several]), same)


def _norms(queries: SymmetricQueries, order: Literal[1, 2]) -> Exact:
    """Sums of |entries|^order of a column of each orbit, one axis an attribute over its classes."""
    totals = np.zeros([len(axis.members) for axis in queries.axes], dtype=object)
    for block in queries.blocks:
        within = math.prod(int((np.abs(_column(queries, block, axis, 0)) ** order).sum()) for axis in block.chosen)
        columns = _sums(np.abs(block.matrix) ** order) * within
        at = tuple(slice(None) if each is None else slice(each, each + 1) for each in block.choice)
        totals[at] += columns.reshape(totals[at].shape)
    return totals


def _inner_products(queries: SymmetricQueries, axes: list[_Pairs]) -> Exact:
    """<a(x), a(y)>, one axis an attribute over its pairs."""
    totals = np.zeros([len(pairs.left) for pairs in axes], dtype=object)
    for block in queries.blocks:
        kept = [np.arange(len(pairs.left)) for pairs in axes]
        shape = [len(pairs.left) for pairs in axes]
        within = np.ones([1] * len(axes), dtype=object)
        for axis in block.chosen:
            pairs, at = axes[axis], block.choice[axis]
            kept[axis] = np.flatnonzero((pairs.left == at) & (pairs.right == at))
            one, other = _column(queries, block, axis, 0), _column(queries, block, axis, 1)
            same = pairs.same[kept[axis]].tolist()
            inner = np.array([int(one @ (one if alike else other)) for alike in same], dtype=object)
            within = within * inner.reshape([-1 if axis == each else 1 for each in range(len(axes))])
            shape[axis] = 1
        counts = [len(queries.axes[axis].members) for axis in block.free]
        left = np.ix_(*(axes[axis].left for axis in block.free))
        right = np.ix_(*(axes[axis].right for axis in block.free))
        gram = np.asarray(_gram(block.matrix).reshape([*counts, *counts])[(*left, *right)], dtype=object)
        totals[np.ix_(*kept)] += gram.reshape(shape) * within
    return totals


def _column(queries: SymmetricQueries, block: BlockQueries, axis: int, index: int) -> NDArray[np.int64]:
    """The column of M_C for one value of the class that a block chooses for an attribute."""
    each, at = queries.axes[axis], block.choice[axis]
    return np.asarray(each.matrix[each.row_slices[at], np.flatnonzero(queries.classes[axis] == at)[index]])


def _sums(entries: NDArray[np.int64]) -> Exact:
    """Of each column: of at most 2^20 non-negative entries up to 2^60."""
    high, low = (entries >> 30).sum(axis=0), (entries & (2**30 - 1)).sum(axis=0)
    return np.asarray(high.astype(object) * 2**30 + low.astype(object))


def _gram(matrix: NDArray[np.int64]) -> Exact:
    """m'm, from products of limbs that doubles hold exactly."""
    high, low = (matrix >> _LIMB).astype(np.float64), (matrix & (2**_LIMB - 1)).astype(np.float64)
    squared, mixed, rest = (each.astype(np.int64).astype(object) for each in (high.T @ high, high.T @ low, low.T @ low))
    return np.asarray(squared * 4**_LIMB + (mixed + mixed.T) * 2**_LIMB + rest)
