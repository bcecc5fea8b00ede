"""Sensitivity of the integer answers of symmetric queries to one row. TRUSTED.

A row in cell x adds the column a(x) of the stacked matrix A to the answers. Consider a block with matrix m, and let
g(x) be the combination of classes of x. Within the block, the columns of x and y have the inner product m[:, g(x)]'m[:,
g(y)], times one factor <M_C[:, x_i], M_C[:, y_i]> for each chosen class C. The factor is 0 unless both values belong to
C. Since M_C'M_C = c^2 (I - 11' / |C|), the factor takes one value when x_i = y_i and one other value when x_i and y_i
differ (``residual_matrix``). All columns of M_C have the same absolute entries up to their order.

Call the combination of the classes of all values of x the orbit of x. It follows that |a(x)|_1 and |a(x)|_2 depend only
on the orbit of x, and that <a(x), a(y)> depends only on both orbits and on the set of attributes in which x and y
agree. There are few such cases, and all of them are compared. All norms and inner products are computed exactly, from
the integers that are applied to the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import BlockQueries, SymmetricQueries

Exact = NDArray[np.object_]

_LARGEST_PAIRS: Final = 1 << 20  # Maximum number of pairs of orbits for which all inner products are compared.
_LIMB: Final = 15  # Bits of a limb. An entry has two limbs, and 2^20 products of limbs sum to at most 2^50.


def largest_l1(queries: SymmetricQueries) -> int:
    """The largest L1 norm of a column of A, exact."""
    return int(_norms(queries, 1).max())


def largest_squared_l2(queries: SymmetricQueries) -> int:
    """The largest squared L2 norm of a column of A, exact."""
    return int(_norms(queries, 2).max())


def largest_squared_exchange(queries: SymmetricQueries) -> int:
    """The largest of |a(x) - a(y)|_2^2 (exchanging a row) and |a(x)|_2^2 (losing a row) over all cells x and y.

    Exact for at most _LARGEST_PAIRS pairs of orbits. Otherwise 4 times the largest squared norm, an upper bound.
    """
    norms = _norms(queries, 2)
    largest = int(norms.max())
    axes = [_Pairs.of(queries, axis) for axis in range(len(queries.clique))]
    if math.prod(len(pairs.left) for pairs in axes) > _LARGEST_PAIRS:
        return 4 * largest
    left, right = norms[np.ix_(*(pairs.left for pairs in axes))], norms[np.ix_(*(pairs.right for pairs in axes))]
    return max(largest, int((left + right - 2 * _inner_products(queries, axes)).max()))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All cases of two values of one attribute that inner products distinguish.

    The first cases are all pairs of classes; a pair of equal classes stands for two equal values. They are followed by
    one case for each class with several members, which stands for two different values of this class.

    left: intp [pairs], the class of the first value.
    right: intp [pairs], the class of the second value.
    same: bool [pairs], whether the two values are equal.
    """

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    same: NDArray[np.bool_]

    @classmethod
    def of(cls, queries: SymmetricQueries, axis: int) -> _Pairs:
        """The cases of the attribute on one axis of the marginal."""
        members = queries.axes[axis].members
        left, right = (indices.ravel() for indices in np.indices((len(members), len(members))))
        several = np.flatnonzero(members > 1)
        same = np.concatenate([left == right, np.zeros(len(several), dtype=np.bool_)])
        return cls(np.concatenate([left, several]), np.concatenate([right, several]), same)


def _norms(queries: SymmetricQueries, order: Literal[1, 2]) -> Exact:
    """Sum of |entries|^order of the column of each orbit, as an array with one axis of classes per attribute."""
    totals = np.zeros([len(axis.members) for axis in queries.axes], dtype=object)
    for block in queries.blocks:
        within = math.prod(int((np.abs(_column(queries, block, axis, 0)) ** order).sum()) for axis in block.chosen)
        columns = _sums(np.abs(block.matrix) ** order) * within
        cells = tuple(slice(None) if choice is None else slice(choice, choice + 1) for choice in block.choice)
        totals[cells] += columns.reshape(totals[cells].shape)
    return totals


def _inner_products(queries: SymmetricQueries, axes: list[_Pairs]) -> Exact:
    """<a(x), a(y)> of every case, as an array with one axis of pairs per attribute."""
    totals = np.zeros([len(pairs.left) for pairs in axes], dtype=object)
    for block in queries.blocks:
        kept = [np.arange(len(pairs.left)) for pairs in axes]
        shape = [len(pairs.left) for pairs in axes]
        within = np.ones([1] * len(axes), dtype=object)
        for axis in block.chosen:
            pairs, chosen = axes[axis], block.choice[axis]
            kept[axis] = np.flatnonzero((pairs.left == chosen) & (pairs.right == chosen))
            column, second_column = _column(queries, block, axis, 0), _column(queries, block, axis, 1)
            same = pairs.same[kept[axis]].tolist()
            inner = np.array([int(column @ (column if equal else second_column)) for equal in same], dtype=object)
            within = within * inner.reshape([-1 if index == axis else 1 for index in range(len(axes))])
            shape[axis] = 1
        counts = [len(queries.axes[axis].members) for axis in block.free]
        left = np.ix_(*(axes[axis].left for axis in block.free))
        right = np.ix_(*(axes[axis].right for axis in block.free))
        gram = np.asarray(_gram(block.matrix).reshape([*counts, *counts])[(*left, *right)], dtype=object)
        totals[np.ix_(*kept)] += gram.reshape(shape) * within
    return totals


def _column(queries: SymmetricQueries, block: BlockQueries, axis: int, index: int) -> NDArray[np.int64]:
    """The column of M_C for member number ``index`` of the class C that a block chooses for an attribute."""
    attribute, chosen = queries.axes[axis], block.choice[axis]
    member = np.flatnonzero(queries.classes[axis] == chosen)[index]
    return np.asarray(attribute.matrix[attribute.row_slices[chosen], member])


def _sums(entries: NDArray[np.int64]) -> Exact:
    """The exact sum of each column of at most 2^20 non-negative entries, each at most 2^60."""
    high, low = (entries >> 30).sum(axis=0), (entries & (2**30 - 1)).sum(axis=0)
    return np.asarray(high.astype(object) * 2**30 + low.astype(object))


def _gram(matrix: NDArray[np.int64]) -> Exact:
    """The exact Gram matrix m'm, from products of limbs that doubles hold exactly."""
    high, low = (matrix >> _LIMB).astype(np.float64), (matrix & (2**_LIMB - 1)).astype(np.float64)
    grams = (high.T @ high, high.T @ low, low.T @ low)
    high_high, high_low, low_low = (gram.astype(np.int64).astype(object) for gram in grams)
    return np.asarray(high_high * 4**_LIMB + (high_low + high_low.T) * 2**_LIMB + low_low)
