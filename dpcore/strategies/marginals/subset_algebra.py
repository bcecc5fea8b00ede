"""Sums over the 2^d subsets of d attributes, and the algebra of marginal Gram matrices by their eigenvalues.

A vector over subsets is float64 [2^d]; reshaped to d axes of 2, index 1 of axis i means that attribute i is inside.
A marginal Gram matrix is G(v) = sum_b v_b C_b, where C_b is the Kronecker product of I for attributes inside b and 11'
for the others. All of them have the same eigenspaces, one a subset a: of vectors that sum to 0 along the attributes of
a and are constant along the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_LEAST = 1e-12  # Of the largest eigenvalue: what is below it is taken for 0.


def subset_index(places: Iterable[int], attributes: int) -> int:
    """Where the subset of these places, out of 0 .. attributes - 1, stands in a vector over subsets."""
    return sum(1 << (attributes - 1 - place) for place in set(places))


def subset_places(index: int, attributes: int) -> tuple[int, ...]:
    """The places of a subset, in order: the inverse of ``subset_index``."""
    return tuple(place for place in range(attributes) if index >> (attributes - 1 - place) & 1)


def subset_products(inside: Sequence[float] | Vector, outside: Sequence[float] | Vector) -> Vector:
    """prod over i in a of inside_i times prod over other i of outside_i, for every subset a: float64 [2^d]."""
    found = np.ones(1)
    for one, other in zip(inside, outside, strict=True):
        found = np.multiply.outer(found, np.array([other, one])).ravel()
    return found


def superset_sums(values: Vector, factors: Sequence[float] | Vector) -> Vector:
    """sum over b containing a of values_b times prod over i in b but not in a of factors_i, for every subset a.

    values: float64 [2^d]. factors: float64 [d]. Takes O(d 2^d).
    """
    return _transformed(values, factors, 0, 1)


def subset_sums(values: Vector, factors: Sequence[float] | Vector) -> Vector:
    """sum over a inside b of values_a times prod over i in b but not in a of factors_i, for every subset b.

    The transpose of ``superset_sums``; that with factors negated is its inverse.
    """
    return _transformed(values, factors, 1, 0)


def _transformed(values: Vector, factors: Sequence[float] | Vector, target: int, source: int) -> Vector:
    found = np.array(values, dtype=np.float64)
    if found.size != 1 << len(factors):
        raise ValueError(f"{found.size} values over subsets of {len(factors)} attributes; want {1 << len(factors)}")
    after = found.size
    for factor in factors:
        after //= 2
        halves = found.reshape(-1, 2, after)
        halves[:, target] += factor * halves[:, source]
    return found


def eigenvalues(weights: Vector, sizes: Sequence[int]) -> Vector:
    """Of G(weights), one a subset: sum over b containing a of weights_b times the cells outside b; float64 [2^d].

    That of a belongs to ``multiplicities(sizes)[a]`` eigenvectors.

    Source: McKenna (2022), Theorem 7.
    """
    return superset_sums(weights * subset_products(np.ones(len(sizes)), sizes), np.ones(len(sizes)))


def multiplicities(sizes: Sequence[int]) -> Vector:
    """Dimensions of the eigenspaces, prod over i in a of (n_i - 1): whole numbers, 0 for no eigenvector at all.

    Source: McKenna (2022), Theorem 10, c(not a) for eigenmatrices of independent columns.
    """
    return subset_products([size - 1 for size in sizes], np.ones(len(sizes)))


def distinct_multiplicities(sizes: Sequence[int]) -> int:
    """How many different multiplicities the eigenvalues of marginal Gram matrices have, that of 0 left out."""
    found = np.unique(multiplicities(sizes))
    return int((found > 0).sum())


def gram_weights(values: Vector, sizes: Sequence[int]) -> Vector:
    """The v whose G(v) has these eigenvalues: the inverse of ``eigenvalues``."""
    return superset_sums(values, -np.ones(len(sizes))) / subset_products(np.ones(len(sizes)), sizes)


def product(left: Vector, right: Vector, sizes: Sequence[int]) -> Vector:
    """The w with G(w) = G(left) G(right).

    Source: McKenna (2022), Theorem 5, in O(d 2^d) by eigenvalues.
    """
    return gram_weights(eigenvalues(left, sizes) * eigenvalues(right, sizes), sizes)


def pseudo_inverse(weights: Vector, sizes: Sequence[int]) -> Vector:
    """The w with G(w) = G(weights)^+, the Moore-Penrose inverse.

    Eigenvalues below 1e-12 of the largest are taken for 0.

    Source: McKenna (2022), Theorem 6, in O(d 2^d) by eigenvalues.
    """
    values = eigenvalues(weights, sizes)
    there = (multiplicities(sizes) > 0) & (np.abs(values) > _LEAST * np.abs(values).max())
    inverse = np.zeros(values.size)
    inverse[there] = 1 / values[there]
    return gram_weights(inverse, sizes)


def svd_bound(weights: Vector, sizes: Sequence[int]) -> float:
    """SVD bound of a workload with Gram matrix G(weights): no strategy has a smaller error at unit noise.

    Source: McKenna (2022), Definition 12 and Theorem 10.
    """
    shares = multiplicities(sizes) / float(np.prod(np.asarray(sizes, dtype=np.float64))) ** 0.5
    return float((shares * np.sqrt(np.maximum(eigenvalues(weights, sizes), 0.0))).sum() ** 2)
