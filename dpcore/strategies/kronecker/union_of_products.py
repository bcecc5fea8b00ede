"""OPT_+: each part of a workload by the best product strategy for it alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.measurement import Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.one_attribute.best_strategy import AttributeStrategy, attribute_strategy

_MOST_BITS = 12  # Of an attribute's entries: rounding then costs less than a thousandth of the error.
_BITS = 27  # Of all attributes of a term together, so that answers and noise stay far within 64 bits.


@dataclass(frozen=True, eq=False)
class TermStrategy:
    """What is measured for one term of a workload.

    queries: Products of one term, or Marginals of one clique.
    reconstruction: float64 [m_i, p_i], one an attribute of the clique, () for a marginal: their Kronecker product takes
        the measured values to least squares answers of the term, without bias.
    error: Sum of the variances of those answers where each measured value has noise of variance 1.
    """

    queries: Marginals | Products
    reconstruction: tuple[NDArray[np.float64], ...]
    error: float


def union_of_products(queries: Marginals | Products, noise: Noise) -> tuple[TermStrategy, ...]:
    """For each term W_1 x ... x W_k the product A_1 x ... x A_k of the best strategy for each W_i alone.

    For one product, under the Gaussians, that is the optimum up to the rounding to integers (OPT_x); a marginal is
    measured as it stands. How much of the budget each term deserves is ``allocation.weighted_shares``.

    Source: thesis of McKenna (2022), Definitions 19 and 21, and Theorem 2.

    Raises ValueError for an attribute that is too large to optimise for.
    """
    if isinstance(queries, Marginals):
        parts = zip(queries.cliques, queries.sizes, strict=True)
        return tuple(TermStrategy(queries.only([clique]), (), float(size)) for clique, size in parts)
    return tuple(_of_term(queries.domain, term, noise) for term in queries.terms)


def _of_term(domain: Domain, term: Product, noise: Noise) -> TermStrategy:
    chosen = [attribute_strategy(matrix, noise, _MOST_BITS) for matrix in term.matrices]
    bits = _BITS // max(1, sum(one.denominator > 1 for one in chosen))
    if bits < _MOST_BITS:
        chosen = [attribute_strategy(matrix, noise, bits) for matrix in term.matrices]
    return _product(domain, term, chosen)


def _product(domain: Domain, term: Product, chosen: list[AttributeStrategy]) -> TermStrategy:
    denominator, error = 1, 1.0
    for one in chosen:
        denominator *= one.denominator
        error *= float((one.reconstruction**2).sum())
    measured = Product(term.clique, tuple(one.matrix for one in chosen))
    reconstruction = tuple(one.reconstruction for one in chosen)
    return TermStrategy(Products(domain, (measured,), denominator), reconstruction, error)
