"""Answers of products from marginals against one dense matrix over all cells."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.linear_answers import answers_of_products, product_of_table
from dpcore.queries import Marginals, Product, Products
from tests.support.product_cases import dense, random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


def marginals_of(table: NDArray[np.float64], queries: Marginals) -> NDArray[np.float64]:
    others = [tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique) for clique in queries.cliques]
    return np.concatenate([table.sum(axis=axes).ravel() for axes in others])


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_the_dense_matrix_times_the_cells(seed: int) -> None:
    """Signed entries, weights, denominators, and cliques that come twice or are empty."""
    generator = np.random.default_rng(seed)
    queries = random_products(DOMAIN, generator)
    table = generator.exponential(size=DOMAIN.sizes)
    asked: list[Marginals] = []

    def answer(marginals: Marginals) -> NDArray[np.float64]:
        asked.append(marginals)
        return marginals_of(table, marginals)

    result = answers_of_products(queries, answer)
    expected = dense(queries).astype(float) @ table.ravel() / queries.denominator
    assert result.dtype == np.float64
    assert np.allclose(result, expected, rtol=1e-12, atol=1e-12)
    assert asked == [queries.marginals]


def test_a_clique_that_comes_twice_is_asked_once() -> None:
    terms = (Product(("b",), (np.eye(3, dtype=int),)), Product(("b",), (np.ones((1, 3), dtype=int),), 2))
    queries = Products(DOMAIN, terms)
    assert queries.marginals.cliques == (("b",),)
    assert answers_of_products(queries, lambda _: np.array([1.0, 2.5, 4.0])).tolist() == [1.0, 2.5, 4.0, 15.0]


def test_a_term_by_hand() -> None:
    term = Product(("a", "b"), (np.array([[1, 1]]), np.array([[1, 0, -1], [0, 2, 0]])), 3)
    table = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
    assert product_of_table(term, table).tolist() == product_of_table(term, table.ravel()).tolist() == [-13.5, 42.0]
