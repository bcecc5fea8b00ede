"""Sensitivity of the integer answers of products to one row. TRUSTED.

A row in cell x adds the column a(x) of the stacked matrix A to the answers. The norms of a column are sums over terms
of weighted products over attributes: |a(x)|_1 = sum_t w_t prod_i |M_ti[:, x_i]|_1, and |a(x)|_2^2 is the same sum with
w_t^2 and squared L2 norms. All norms are computed exactly, from the integers that are applied to the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Product, Products

_LARGEST_JOINT = 1 << 18  # Maximum number of cells over which the sum of terms is maximised exactly.
_LARGEST_GRAM = 1 << 11  # Maximum number of values of an attribute for which all pairs are compared.

Norms = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def largest_l1(queries: Products) -> int:
    """C_1, an upper bound on the largest L1 norm of a column of A; exact for few joint classes (``_largest``)."""
    return _largest(queries, 1, lambda matrix: np.abs(matrix).sum(axis=0))


def largest_l1_of(term: Product) -> int:
    """The largest L1 norm of a column of one term, exact: the product of the maxima of its attributes."""
    return term.weight * math.prod(int(np.abs(matrix).sum(axis=0).max()) for matrix in term.matrices)


def largest_squared_l2(queries: Products) -> int:
    """C_2, an upper bound on the largest squared L2 norm of a column; exact for few joint classes (``_largest``)."""
    return _largest(queries, 2, lambda matrix: (matrix**2).sum(axis=0))


def largest_squared_exchange(queries: Products) -> int:
    """An upper bound on |a(x) - a(y)|_2^2 (exchanging a row) and |a(x)|_2^2 (losing a row) over all cells x and y.

    |a(x) - a(y)|^2 = |a(x)|^2 + |a(y)|^2 - 2 <a(x), a(y)> <= 2 C_2 - 2 m, where m is a lower bound on every inner
    product. m is a sum over terms of the smallest product of one inner product per attribute, by interval arithmetic.
    The bound is never above 4 C_2.
    """
    largest = largest_squared_l2(queries)
    least = sum(term.weight**2 * _least_inner_product(term) for term in queries.terms)
    return max(largest, min(4 * largest, 2 * largest - 2 * least))


def _largest(queries: Products, power: int, norms_of: Norms) -> int:
    """Maximum over cells of the sum over terms of weight^power times the product of column norms.

    The maximum is exact when the classes of values (``_classes``) have at most _LARGEST_JOINT combinations. Otherwise
    the sum of the maxima of the terms is returned, which is an upper bound.
    """
    norms = [[norms_of(matrix) for matrix in term.matrices] for term in queries.terms]
    weights = [term.weight**power for term in queries.terms]
    bounds = [w * math.prod(int(norm.max()) for norm in parts) for w, parts in zip(weights, norms, strict=True)]
    # If all columns of an attribute have the same norms, the attribute is a constant factor and needs no axis.
    classes = {name: indices for name, indices in _classes(queries, norms).items() if len(indices) > 1}
    if math.prod(map(len, classes.values())) > _LARGEST_JOINT:
        return sum(bounds)
    kind: Any = np.int64 if sum(bounds) < 1 << 62 else object
    total = np.zeros([len(indices) for indices in classes.values()], dtype=kind)
    for term, weight, parts in zip(queries.terms, weights, norms, strict=True):
        named = dict(zip(term.clique, parts, strict=True))
        constant = math.prod(int(norm[0]) for name, norm in named.items() if name not in classes)
        joint = np.full([1] * total.ndim, weight * constant, dtype=kind)
        for name, norm in named.items():
            if name in classes:
                shape = [-1 if axis == name else 1 for axis in classes]
                joint = joint * norm[classes[name]].astype(kind).reshape(shape)
        total = total + joint
    return int(total.max())


def _classes(queries: Products, norms: list[list[NDArray[np.int64]]]) -> dict[str, NDArray[np.intp]]:
    """Partitions the values of each attribute into classes with equal norms in every term; one index per class."""
    norms_of_attribute: dict[str, list[NDArray[np.int64]]] = {}
    for term, parts in zip(queries.terms, norms, strict=True):
        for name, norm in zip(term.clique, parts, strict=True):
            norms_of_attribute.setdefault(name, []).append(norm)
    return {name: np.unique(np.stack(rows), axis=1, return_index=True)[1] for name, rows in norms_of_attribute.items()}


def _least_inner_product(term: Product) -> int:
    """A lower bound on the inner product of two columns of one term, without its weight, by interval arithmetic."""
    low, high = 1, 1
    for matrix in term.matrices:
        products = [end * bound for end in (low, high) for bound in _inner_products(matrix)]
        low, high = min(products), max(products)
    return low


def _inner_products(matrix: NDArray[np.int64]) -> tuple[int, int]:
    """Smallest and largest inner product of two columns; for many columns bounds on them, by Cauchy-Schwarz."""
    if matrix.shape[1] > _LARGEST_GRAM:
        largest = int((matrix**2).sum(axis=0).max())
        return (0 if matrix.min() >= 0 else -largest), largest
    gram = matrix.T @ matrix
    return int(gram.min()), int(gram.max())
