"""The algebra of marginal Gram matrices by their eigenvalues, as the thesis writes it: a reference for tests.

A marginal Gram matrix is G(v) = sum_b v_b C_b, where C_b is the Kronecker product of I for attributes inside b and 11'
for the others. All of them have the same eigenspaces, one per subset a: the vectors that sum to 0 along the attributes
of a and are constant along the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcore.strategies.marginals.subset_sums import Vector, subset_products, superset_sums

_LEAST = 1e-12  # Of the largest eigenvalue: what is below it is taken for 0.


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
