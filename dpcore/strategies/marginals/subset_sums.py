"""Sums over the 2^d subsets of d attributes.

A vector over subsets is float64 [2^d]. After reshaping to d axes of length 2, index 1 along axis i means that the
subset contains attribute i. Each transform takes O(d 2^d) operations instead of O(4^d).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def subset_index(indices: Iterable[int], attributes: int) -> int:
    """The index of a subset in a vector over subsets.

    indices: The positions of the subset's attributes, in 0 .. attributes - 1.
    attributes: The number d of attributes.
    """
    return sum(1 << (attributes - 1 - index) for index in set(indices))


def subset_attributes(index: int, attributes: int) -> tuple[int, ...]:
    """The positions of a subset's attributes, ascending; the inverse of ``subset_index``.

    index: The index of the subset, in 0 .. 2^attributes - 1.
    attributes: The number d of attributes.
    """
    return tuple(position for position in range(attributes) if index >> (attributes - 1 - position) & 1)


def subset_products(inside: Sequence[float] | Vector, outside: Sequence[float] | Vector) -> Vector:
    """For every subset a, the product of inside_i over i in a and of outside_i over all other i: float64 [2^d].

    inside: The factor of each attribute inside a subset, [d].
    outside: The factor of each attribute outside a subset, [d].
    """
    products = np.ones(1)
    for factor_inside, factor_outside in zip(inside, outside, strict=True):
        products = np.multiply.outer(products, np.array([factor_outside, factor_inside])).ravel()
    return products


def superset_sums(values: Vector, factors: Sequence[float] | Vector) -> Vector:
    """For every subset a, the sum over b >= a of values_b prod_{i in b - a} factors_i.

    values: float64 [2^d], one per subset b.
    factors: float64 [d], one per attribute.

    Returns float64 [2^d], one sum per subset a.
    """
    return _transform(values, factors, 0, 1)


def subset_sums(values: Vector, factors: Sequence[float] | Vector) -> Vector:
    """For every subset b, the sum over a <= b of values_a prod_{i in b - a} factors_i.

    This is the transpose of ``superset_sums``. The same transform with negated factors is its inverse.

    values: float64 [2^d], one per subset a.
    factors: float64 [d], one per attribute.

    Returns float64 [2^d], one sum per subset b.
    """
    return _transform(values, factors, 1, 0)


def _transform(values: Vector, factors: Sequence[float] | Vector, target: int, source: int) -> Vector:
    """Adds, axis by axis, factor times the entries at index ``source`` to those at index ``target``."""
    sums = np.array(values, dtype=np.float64)
    if sums.size != 1 << len(factors):
        raise ValueError(f"{sums.size} values over subsets of {len(factors)} attributes; want {1 << len(factors)}")
    stride = sums.size
    for factor in factors:
        stride //= 2
        halves = sums.reshape(-1, 2, stride)
        halves[:, target] += factor * halves[:, source]
    return sums
