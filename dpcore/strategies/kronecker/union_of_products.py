"""OPT_+ with one group per term: every term of a workload is measured by the best product strategy for it alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.measurement import Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.one_attribute.best_strategy import AttributeStrategy, attribute_strategy

_MAX_BITS = 12  # Bits of one attribute's entries; rounding then costs less than a thousandth of the error.
_MAX_TOTAL_BITS = 27  # Bits of all attributes of a term together; answers and noise then stay far within 64 bits.


@dataclass(frozen=True, eq=False)
class TermStrategy:
    """What is measured for one term of a workload.

    queries: Products of one term, or Marginals of one clique.
    reconstruction: One matrix per attribute of the clique, float64 [m_i, p_i]; () for a marginal. Their Kronecker
        product maps the measured values to the least-squares answers of the term.
    error: The sum of the variances of these answers if each measured value has noise of variance 1.
    """

    queries: Marginals | Products
    reconstruction: tuple[NDArray[np.float64], ...]
    error: float


def union_of_products(queries: Marginals | Products, noise: Noise) -> tuple[TermStrategy, ...]:
    """For each term W_1 x ... x W_k the product A_1 x ... x A_k, where A_i is the best strategy for W_i alone.

    queries: The workload.
    noise: The law of the noise for which the strategies are optimised.

    For one product under Gaussian noise this is the optimum up to rounding to integers (OPT_x). A marginal is measured
    directly. ``allocation.weighted_shares`` splits the budget among the terms.

    Returns one strategy per term (or clique), in the order of the workload.

    Raises ValueError for an attribute that is too large to optimise for.

    Source: thesis of McKenna (2022), Definitions 19 and 21, and Theorem 2.
    """
    if isinstance(queries, Marginals):
        pairs = zip(queries.cliques, queries.sizes, strict=True)
        return tuple(TermStrategy(queries.only([clique]), (), float(size)) for clique, size in pairs)
    return tuple(_term_strategy(queries.domain, term, noise) for term in queries.terms)


def _term_strategy(domain: Domain, term: Product, noise: Noise) -> TermStrategy:
    strategies = [attribute_strategy(matrix, noise, _MAX_BITS) for matrix in term.matrices]
    bits = _MAX_TOTAL_BITS // max(1, sum(strategy.denominator > 1 for strategy in strategies))
    if bits < _MAX_BITS:
        strategies = [attribute_strategy(matrix, noise, bits) for matrix in term.matrices]
    return _product(domain, term, strategies)


def _product(domain: Domain, term: Product, strategies: list[AttributeStrategy]) -> TermStrategy:
    denominator, error = 1, 1.0
    for strategy in strategies:
        denominator *= strategy.denominator
        error *= float((strategy.reconstruction**2).sum())
    measured = Product(term.clique, tuple(strategy.matrix for strategy in strategies))
    reconstruction = tuple(strategy.reconstruction for strategy in strategies)
    return TermStrategy(Products(domain, (measured,), denominator), reconstruction, error)
