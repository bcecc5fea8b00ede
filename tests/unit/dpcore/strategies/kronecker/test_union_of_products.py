"""Product strategies against one dense matrix a term."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.measurement import Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.strategies.kronecker.union_of_products import union_of_products
from dpcore.strategies.one_attribute.best_strategy import attribute_strategy

DOMAIN = Domain.of({"a": 4, "b": 2, "c": 5, "d": 3})
MATRICES = {"a": prefix(4), "c": all_ranges(5), "d": prefix(3, 2)}
QUERIES = range_marginals(DOMAIN, [("a", "c", "d"), ("b",), ("a", "b"), ()], MATRICES)


def kron(matrices: tuple[NDArray[np.generic], ...]) -> NDArray[np.float64]:
    return reduce(np.kron, matrices, np.ones((1, 1)))


@pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN])
def test_each_term_comes_out_of_its_own_strategy(noise: Noise) -> None:
    parts = union_of_products(QUERIES, noise)
    assert len(parts) == 4
    for term, part in zip(QUERIES.terms, parts, strict=True):
        assert isinstance(part.queries, Products)
        (measured,) = part.queries.terms
        assert measured.clique == term.clique
        asked, strategy = kron(term.matrices), kron(measured.matrices) / part.queries.denominator
        assert np.allclose(kron(part.reconstruction) @ strategy, asked)
        assert np.allclose(kron(part.reconstruction), asked @ np.linalg.pinv(strategy))
        assert part.error == pytest.approx(np.sum(kron(part.reconstruction) ** 2))


def test_one_product_is_optimal_under_the_gaussians() -> None:
    """Theorem 2: the optimum of a product is the product of the optima."""
    (part,) = union_of_products(Products(DOMAIN, QUERIES.terms[:1]), Noise.GAUSSIAN)
    assert isinstance(part.queries, Products)
    strategy = kron(part.queries.terms[0].matrices) / part.queries.denominator
    bounds = [attribute_strategy(matrix, Noise.GAUSSIAN, 12).bound for matrix in QUERIES.terms[0].matrices]
    result = part.error * (strategy**2).sum(axis=0).max()
    assert np.prod(bounds) * (1 - 1e-6) <= result <= np.prod(bounds) * 1.01


def test_many_attributes_share_the_bits() -> None:
    """Answers stay within 64 bits for tables of 2^34 rows."""
    domain = Domain.of(dict.fromkeys("abcdef", 6))
    for order in range(1, 7):
        term = Product(tuple("abcdef"[:order]), (prefix(6),) * order)
        (part,) = union_of_products(Products(domain, (term,)), Noise.GAUSSIAN)
        assert isinstance(part.queries, Products)
        assert part.queries.denominator <= 2**27
        largest = [int(np.abs(matrix).max()) for matrix in part.queries.terms[0].matrices]
        assert np.prod(largest) <= 2**27


def test_a_marginal_is_measured_as_it_stands() -> None:
    queries = Marginals(DOMAIN, (("a", "b"), (), ("c",)))
    parts = union_of_products(queries, Noise.GAUSSIAN)
    assert [part.queries for part in parts] == [queries.only([clique]) for clique in queries.cliques]
    assert [part.error for part in parts] == [8, 1, 5]
    assert all(part.reconstruction == () for part in parts)
