"""Answers of products, as linear functions of marginals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.least_squares import kronecker_times
from dpcore.queries import Marginals, Product, Products


def answers_of_products(queries: Products, answer: Callable[[Marginals], NDArray[np.float64]]) -> NDArray[np.float64]:
    """The answers of products, from a function that answers marginals: float64 [queries.size].

    queries: The products.
    answer: Returns the concatenated answers of marginals. It is called once, with ``queries.marginals``.
    """
    marginals = queries.marginals
    tables = dict(zip(marginals.cliques, marginals.split(answer(marginals)), strict=True))
    answers = [product_of_table(term, np.asarray(tables[term.clique], dtype=np.float64)) for term in queries.terms]
    return np.concatenate(answers) / queries.denominator


def product_of_table(term: Product, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """weight * (M_1 x ... x M_k) applied to one table, not divided by the denominator: float64 [term.size].

    term: The product, with its weight and matrices.
    table: float64 [cells of the term's clique], in C order and of any shape.

    Source: thesis of McKenna (2022), Algorithm 4, for a dense table: one matrix at a time.
    """
    factors = [matrix.astype(np.float64) for matrix in term.matrices]
    return np.asarray(term.weight * kronecker_times(factors, table))
