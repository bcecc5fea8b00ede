"""OPT_M for prefixes, ranges and other queries about single attributes: integer products to measure, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.queries import Product, Products, rounded_rows
from dpcore.queries.ranges import identity
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra, Matrix
from dpcore.strategies.marginals.shared_p_identity import Search, p_identity_matrix, shared_thetas
from dpcore.strategies.marginals.strategy import EFFORT, MOST_CELLS, marginals_error, marginals_strategy
from dpcore.strategies.one_attribute.best_strategy import attribute_strategy

Integers = NDArray[np.int64]
_MOST_BITS: Final = 10  # Of an attribute's entries: rounding then costs less than a thousandth of the error.
_BITS: Final = 24  # Of all attributes of a term together, so that answers and noise stay far within 64 bits.
_LARGEST_SHARED: Final = 300  # Values of an attribute that is optimised for the whole.
_ROUND: Final = 0.1  # Of the effort, for a round of that.


@dataclass(frozen=True, eq=False)
class ProductStrategy:
    """Products to measure with Laplace noise, whose joint least squares answers a workload of products.

    queries: Of one term each, small cliques first. All read an attribute through the same integers.
    weights: float64 [queries], positive, with sum 1: shares of the budget.
    error: Sum of the weighted variances of all answers together where the queries, each divided by its sensitivity and
        times its weight, are measured with noise of variance 1. Of the integers, so that it holds as it stands.
    """

    queries: tuple[Products, ...]
    weights: NDArray[np.float64]
    error: float

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return exact_shares(self.weights)


def product_strategy(
    domain: Domain,
    asked: Mapping[Clique, float],
    matrices: Mapping[str, Integers],
    *,
    most_cells: int = MOST_CELLS,
    effort: float = EFFORT,
    seed: int = 0,
) -> ProductStrategy:
    """The best products found for a workload of products (x)_{i in b} W_i, under Laplace noise.

    asked: How much the squared errors of the answers about each clique count, positive.
    matrices: W_i, int64 [rows, size of the attribute], of attributes that are asked for more than their codes.
    most_cells, effort, seed: As for ``marginals_strategy``.

    Each attribute is measured through the same queries in every product, at first the best ones for it alone. Where
    these are a p-Identity strategy of at most 300 values, it is then made the best one for the whole, in turn with the
    products and their weights. A strategy is rounded to integers, and what that leaves of the sensitivity is added to
    the queries of single codes.

    The choice depends on the arguments alone: a plan and its run make the same.

    Source: McKenna (2022), Definitions 15 and 24; one strategy an attribute with joint least squares is this project's.

    Raises ValueError as ``marginals_strategy`` and ``attribute_strategy`` do, and for an unknown attribute.
    """
    for name in matrices:
        domain.index(name)
    used = {name: matrix for name, matrix in matrices.items() if any(name in clique for clique in asked)}
    search = partial(marginals_strategy, domain, asked, Noise.LAPLACE, most_cells=most_cells, seed=seed)
    thetas = _shared(domain, asked, used, partial(search, effort=_ROUND * effort))
    chosen = {name: _Attribute.of(matrix, _MOST_BITS, thetas.get(name)) for name, matrix in used.items()}
    found = search(_algebras(chosen), effort=effort)
    error = found.error
    rounded = {name for name, one in chosen.items() if one.denominator > 1}
    bits = _BITS // max(1, *(len(rounded.intersection(clique)) for clique in found.cliques))
    if bits < _MOST_BITS:
        chosen = {name: _Attribute.of(matrix, bits, thetas.get(name)) for name, matrix in used.items()}
        weights = dict(zip(found.cliques, found.weights.tolist(), strict=True))
        error = marginals_error(domain, asked, Noise.LAPLACE, weights, _algebras(chosen))
    queries = tuple(_measured(domain, clique, chosen) for clique in found.cliques)
    return ProductStrategy(queries, found.weights, error)


def asked_products(queries: Products, weights: NDArray[np.float64]) -> tuple[dict[Clique, float], dict[str, Integers]]:
    """Squared weights of each clique, and the matrix of each attribute that is asked for more than its codes.

    weights: float64 [terms].

    Raises ValueError where two terms ask different queries about one attribute.
    """
    asked: dict[Clique, float] = {}
    matrices: dict[str, Integers] = {}
    for term, weight in zip(queries.terms, weights.tolist(), strict=True):
        asked[term.clique] = asked.get(term.clique, 0.0) + weight**2
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            first = matrices.setdefault(name, matrix)
            if first is not matrix and not np.array_equal(first, matrix):
                raise ValueError(f"different queries about {name!r} in two terms; want the same in all")
    return asked, {name: matrix for name, matrix in matrices.items() if not _is_identity(matrix)}


@dataclass(frozen=True, eq=False)
class _Attribute:
    """What an attribute is measured through, matrix / denominator, and what that tells of its workload."""

    matrix: Integers
    denominator: int
    algebra: AttributeAlgebra

    @classmethod
    def of(cls, workload: Integers, bits: int, theta: Matrix | None) -> _Attribute:
        """theta: Of a p-Identity strategy, or the best strategy for the attribute alone."""
        if theta is None:
            found = attribute_strategy(workload, Noise.LAPLACE, bits)
            matrix, denominator = found.matrix, found.denominator
        else:
            real = p_identity_matrix(theta)
            matrix, denominator = rounded_rows(real / real.max(), bits)
            codes = np.arange(theta.shape[1])
            matrix[codes, codes] = np.maximum(matrix[codes, codes], 1)
            matrix = matrix[matrix.any(axis=1)]
        matrix = _filled(matrix)
        algebra = AttributeAlgebra.of(matrix.astype(np.float64), _gram(workload), Noise.LAPLACE)
        return cls(matrix, denominator, algebra)


def _shared(
    domain: Domain, asked: Mapping[Clique, float], workloads: Mapping[str, Integers], search: Search
) -> dict[str, Matrix]:
    """Theta of the attributes that are measured through p-Identity strategies."""
    alone = {name: _Attribute.of(matrix, _MOST_BITS, None) for name, matrix in workloads.items()}
    starts = {name: theta for name, one in alone.items() if (theta := _theta(one.matrix)) is not None}
    grams = {name: _gram(workloads[name]) for name in starts}
    others = {name: one.algebra for name, one in alone.items() if name not in starts}
    return shared_thetas(domain, asked, starts, grams, others, search) if starts else {}


def _theta(matrix: Integers) -> Matrix | None:
    """Theta where the matrix is [I; Theta] times a diagonal one."""
    alone = (matrix != 0).sum(axis=1) == 1
    size = matrix.shape[1]
    codes, rest = matrix[alone], matrix[~alone]
    if size > _LARGEST_SHARED or not len(rest) or codes.shape != (size, size) or (matrix < 0).any():
        return None
    weights = codes.sum(axis=0)
    return rest / weights if weights.all() else None


def _gram(workload: Integers) -> Matrix:
    real = workload.astype(np.float64)
    return np.asarray(real.T @ real)


def _algebras(chosen: Mapping[str, _Attribute]) -> dict[str, AttributeAlgebra]:
    return {name: one.algebra for name, one in chosen.items()}


def _filled(matrix: Integers) -> Integers:
    """With more weight on queries of single codes, as far as no column's L1 norm passes the largest one."""
    filled, norms = matrix.copy(), np.abs(matrix).sum(axis=0)
    alone = np.flatnonzero((matrix != 0).sum(axis=1) == 1)
    codes, first = np.unique(np.abs(matrix[alone]).argmax(axis=1), return_index=True)
    rows = alone[first]
    filled[rows, codes] += np.sign(filled[rows, codes]) * (norms.max() - norms[codes])
    return filled


def _measured(domain: Domain, clique: Clique, chosen: Mapping[str, _Attribute]) -> Products:
    matrices, denominator = [], 1
    for name, size in zip(clique, domain.shape(clique), strict=True):
        one = chosen.get(name)
        matrices.append(identity(size) if one is None else one.matrix)
        denominator *= 1 if one is None else one.denominator
    return Products(domain, (Product(clique, tuple(matrices)),), denominator)


def _is_identity(matrix: Integers) -> bool:
    return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix), dtype=np.int64))
