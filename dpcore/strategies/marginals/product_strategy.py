"""OPT_M for prefixes, ranges and other queries about single attributes: integer products to measure together."""

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
from dpcore.strategies.marginals.shared_p_identity import Search, shared_thetas
from dpcore.strategies.marginals.strategy import EFFORT, MAX_CELLS, marginals_error, marginals_strategy
from dpcore.strategies.one_attribute.best_strategy import attribute_strategy
from dpcore.strategies.one_attribute.p_identity import p_identity_matrix

Integers = NDArray[np.int64]
_MAX_BITS: Final = 10  # Bits of one attribute's entries; rounding then costs less than a thousandth of the error.
_MAX_TOTAL_BITS: Final = 24  # Bits of all attributes of a term; answers and noise then stay far within 64 bits.
_MAX_SHARED_SIZE: Final = 300  # Larger attributes keep the strategy that is best for them alone.
_EFFORT_PER_ROUND: Final = 0.1  # Fraction of the effort for the search in each round of the shared optimisation.


@dataclass(frozen=True, eq=False)
class ProductStrategy:
    """Products to measure with Laplace noise; joint least squares from all of them answers a workload of products.

    queries: Products of one term each, small cliques first. An attribute has the same integer matrix in all of them.
    weights: float64 [queries], positive, with sum 1: shares of the budget.
    error: The weighted sum of the variances of all answers, for the rounded matrices. It assumes that each product,
        divided by its sensitivity and multiplied by its weight, is measured with noise of variance 1.
    """

    queries: tuple[Products, ...]
    weights: NDArray[np.float64]
    error: float

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The weights as exact fractions whose sum is at most 1."""
        return exact_shares(self.weights)


def product_strategy(
    domain: Domain,
    clique_weights: Mapping[Clique, float],
    matrices: Mapping[str, Integers],
    *,
    max_cells: int = MAX_CELLS,
    effort: float = EFFORT,
    seed: int = 0,
) -> ProductStrategy:
    """The best products found for a workload of products (x)_{i in b} W_i, under Laplace noise.

    domain: The domain of the workload.
    clique_weights: The cliques of the workload, with positive weights of their squared errors.
    matrices: W_i, int64 [rows, size of the attribute], of the attributes that are not queried by their codes.
    max_cells, effort, seed: The same as for ``marginals_strategy``.

    Each attribute is measured through the same queries in every product. They start as the best queries for the
    attribute alone. A p-Identity strategy of at most 300 values is then optimised for the whole workload, alternating
    with the choice of products and weights. Strategies are rounded to integers; the sensitivity that rounding leaves
    unused is given to the queries of single codes.

    The result depends on the arguments alone, so a plan and its run use the same strategy.

    Raises ValueError as ``marginals_strategy`` and ``attribute_strategy`` do, and for an unknown attribute.

    Source: McKenna (2022), Definitions 15 and 24; one strategy per attribute with joint least squares is this
    project's.
    """
    for name in matrices:
        domain.index(name)
    workloads = {name: matrix for name, matrix in matrices.items() if any(name in clique for clique in clique_weights)}
    search = partial(marginals_strategy, domain, clique_weights, Noise.LAPLACE, max_cells=max_cells, seed=seed)
    thetas = _shared_thetas_of(domain, clique_weights, workloads, partial(search, effort=_EFFORT_PER_ROUND * effort))
    attributes = {name: _Attribute.of(matrix, _MAX_BITS, thetas.get(name)) for name, matrix in workloads.items()}
    solution = search(_algebras(attributes), effort=effort)
    error = solution.error
    rounded = {name for name, attribute in attributes.items() if attribute.denominator > 1}
    bits = _MAX_TOTAL_BITS // max(1, *(len(rounded.intersection(clique)) for clique in solution.cliques))
    if bits < _MAX_BITS:
        attributes = {name: _Attribute.of(matrix, bits, thetas.get(name)) for name, matrix in workloads.items()}
        weights = dict(zip(solution.cliques, solution.weights.tolist(), strict=True))
        error = marginals_error(domain, clique_weights, Noise.LAPLACE, weights, _algebras(attributes))
    queries = tuple(_product(domain, clique, attributes) for clique in solution.cliques)
    return ProductStrategy(queries, solution.weights, error)


def clique_weights_and_matrices(
    queries: Products, weights: NDArray[np.float64]
) -> tuple[dict[Clique, float], dict[str, Integers]]:
    """A workload of products, converted to the arguments of ``product_strategy``.

    queries: The workload. All terms that name an attribute have the same matrix for it.
    weights: float64 [terms], the weight of each term's error.

    Returns the sum of the squared weights of each clique's terms, and the matrix of each attribute that is not queried
    by its codes.

    Raises ValueError if two terms have different matrices for one attribute.
    """
    clique_weights: dict[Clique, float] = {}
    matrices: dict[str, Integers] = {}
    for term, weight in zip(queries.terms, weights.tolist(), strict=True):
        clique_weights[term.clique] = clique_weights.get(term.clique, 0.0) + weight**2
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            earlier = matrices.setdefault(name, matrix)
            if earlier is not matrix and not np.array_equal(earlier, matrix):
                raise ValueError(f"different queries about {name!r} in two terms; want the same in all")
    return clique_weights, {name: matrix for name, matrix in matrices.items() if not _is_identity(matrix)}


@dataclass(frozen=True, eq=False)
class _Attribute:
    """The strategy of one attribute.

    matrix: int64 [p, n], the integer queries.
    denominator: The strategy is matrix / denominator.
    algebra: The contribution of the attribute to the error of the workload.
    """

    matrix: Integers
    denominator: int
    algebra: AttributeAlgebra

    @classmethod
    def of(cls, workload: Integers, bits: int, theta: Matrix | None) -> _Attribute:
        """A rounded strategy for one attribute.

        workload: W_i, int64 [rows, n].
        bits: Entries are rounded to multiples of 2^-bits of the largest.
        theta: Theta of a p-Identity strategy, or None for the best strategy for the attribute alone.
        """
        if theta is None:
            strategy = attribute_strategy(workload, Noise.LAPLACE, bits)
            matrix, denominator = strategy.matrix, strategy.denominator
        else:
            real = p_identity_matrix(theta)
            matrix, denominator = rounded_rows(real / real.max(), bits)
            codes = np.arange(theta.shape[1])
            matrix[codes, codes] = np.maximum(matrix[codes, codes], 1)
            matrix = matrix[matrix.any(axis=1)]
        matrix = _with_equal_norms(matrix)
        algebra = AttributeAlgebra.of(matrix.astype(np.float64), _gram(workload), Noise.LAPLACE)
        return cls(matrix, denominator, algebra)


def _shared_thetas_of(
    domain: Domain, clique_weights: Mapping[Clique, float], workloads: Mapping[str, Integers], search: Search
) -> dict[str, Matrix]:
    """Theta of the attributes that are measured by p-Identity strategies, optimised for the whole workload."""
    best_alone = {name: _Attribute.of(matrix, _MAX_BITS, None) for name, matrix in workloads.items()}
    thetas = {name: _theta_of(attribute.matrix) for name, attribute in best_alone.items()}
    starts = {name: theta for name, theta in thetas.items() if theta is not None}
    grams = {name: _gram(workloads[name]) for name in starts}
    others = {name: attribute.algebra for name, attribute in best_alone.items() if name not in starts}
    return shared_thetas(domain, clique_weights, starts, grams, others, search) if starts else {}


def _theta_of(matrix: Integers) -> Matrix | None:
    """Theta if the matrix is [I; Theta] times a diagonal matrix and the attribute is small; None otherwise."""
    reads_one_code = (matrix != 0).sum(axis=1) == 1
    size = matrix.shape[1]
    codes, rest = matrix[reads_one_code], matrix[~reads_one_code]
    if size > _MAX_SHARED_SIZE or not len(rest) or codes.shape != (size, size) or (matrix < 0).any():
        return None
    weights = codes.sum(axis=0)
    return rest / weights if weights.all() else None


def _gram(workload: Integers) -> Matrix:
    real = workload.astype(np.float64)
    return np.asarray(real.T @ real)


def _algebras(attributes: Mapping[str, _Attribute]) -> dict[str, AttributeAlgebra]:
    return {name: attribute.algebra for name, attribute in attributes.items()}


def _with_equal_norms(matrix: Integers) -> Integers:
    """The matrix with larger weights of single codes, such that all columns have the largest L1 norm."""
    result, norms = matrix.copy(), np.abs(matrix).sum(axis=0)
    single_code_rows = np.flatnonzero((matrix != 0).sum(axis=1) == 1)
    codes, first_rows = np.unique(np.abs(matrix[single_code_rows]).argmax(axis=1), return_index=True)
    rows = single_code_rows[first_rows]
    result[rows, codes] += np.sign(result[rows, codes]) * (norms.max() - norms[codes])
    return result


def _product(domain: Domain, clique: Clique, attributes: Mapping[str, _Attribute]) -> Products:
    """The product of the attributes' strategies on one clique."""
    matrices, denominator = [], 1
    for name, size in zip(clique, domain.shape(clique), strict=True):
        attribute = attributes.get(name)
        matrices.append(identity(size) if attribute is None else attribute.matrix)
        denominator *= 1 if attribute is None else attribute.denominator
    return Products(domain, (Product(clique, tuple(matrices)),), denominator)


def _is_identity(matrix: Integers) -> bool:
    return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix), dtype=np.int64))
