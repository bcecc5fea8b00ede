"""Measurements as linear functions of marginals, against dense Kronecker products."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.linear_measurements import (
    LinearMeasurement,
    linear_measurements,
    maximal,
    merged,
    smallest_containing,
)
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products, UnitCount
from tests.support.product_cases import random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


def dense(part: LinearMeasurement) -> NDArray[np.float64]:
    """[rows, cells of the clique]."""
    if part.matrices is None:
        return np.eye(part.values.size)
    return np.asarray(reduce(np.kron, part.matrices, np.ones((1, 1))))


def measurement(queries: Marginals | Products, seed: int = 1, scale: float = 2.0) -> Measurement:
    values = np.random.default_rng(seed).normal(20, 9, queries.size)
    return Measurement(queries, values, Noise.GAUSSIAN, scale)


def test_the_terms_of_marginals_are_their_tables() -> None:
    asked = Marginals(DOMAIN, (("b", "a"), (), ("c",)))
    measured = measurement(asked)
    parts = linear_measurements(measured)
    assert [part.clique for part in parts] == [("a", "b"), (), ("c",)]
    assert np.concatenate([part.values for part in parts]).tolist() == measured.values.tolist()
    assert all(part.precision == 0.25 and part.matrices is None and part.constant == 0 for part in parts)


@pytest.mark.parametrize("seed", range(20))
def test_the_terms_of_products_are_weight_times_kronecker_product_over_the_denominator(seed: int) -> None:
    generator = np.random.default_rng(seed)
    products = random_products(DOMAIN, generator)
    measured = measurement(products)
    parts = linear_measurements(measured)
    assert np.concatenate([part.values for part in parts]).tolist() == measured.values.tolist()
    for part, asked in zip(parts, products.terms, strict=True):
        wanted = reduce(np.kron, asked.matrices, np.ones((1, 1))) * asked.weight / products.denominator
        table, rows = generator.normal(size=wanted.shape[1]), generator.normal(size=wanted.shape[0])
        assert part.clique == asked.clique
        assert part.precision == pytest.approx(measured.stddev**-2)
        np.testing.assert_allclose(part.apply(table), wanted @ table, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(part.apply_transpose(rows), wanted.T @ rows, rtol=1e-12, atol=1e-12)


def test_what_no_marginal_answers_is_refused() -> None:
    with pytest.raises(TypeError, match="UnitCount"):
        linear_measurements(Measurement(UnitCount(), np.ones(1), Noise.GAUSSIAN, 1.0))


def squared(parts: list[LinearMeasurement], tables: dict[tuple[str, ...], NDArray[np.float64]]) -> float:
    residuals = [(part.apply(tables[part.clique]) - part.values, part) for part in parts]
    return sum(part.constant + part.precision / 2 * float(residual @ residual) for residual, part in residuals)


def test_merged_terms_have_the_same_squared_loss() -> None:
    """Three measurements of one clique, of different noise, and a product that stays alone."""
    generator = np.random.default_rng(2)
    asked = [
        Marginals(DOMAIN, (("a", "b"),)),
        Marginals(DOMAIN, (("c",), ("a", "b"))),
        Marginals(DOMAIN, (("a", "b"),)),
    ]
    product = Products(DOMAIN, (Product(("a", "b"), (np.array([[1, 2]]), np.eye(3, dtype=int))),))
    measured = [measurement(queries, seed, 1.0 + seed) for seed, queries in enumerate([*asked, product])]
    parts = [part for each in measured for part in linear_measurements(each)]
    found = merged(parts)
    assert [part.clique for part in found] == [("a", "b"), ("c",), ("a", "b")]
    assert found[0].precision == pytest.approx(1 + 1 / 4 + 1 / 9)
    for _ in range(5):
        tables = {("a", "b"): generator.normal(20, 9, 6), ("c",): generator.normal(20, 9, 4)}
        assert squared(found, tables) == pytest.approx(squared(parts, tables), rel=1e-12)


def test_maximal_cliques_lie_in_no_other() -> None:
    cliques = [("a",), ("b", "a"), ("c",), (), ("a", "b"), ("c",)]
    assert maximal(DOMAIN, cliques) == (("a", "b"), ("c",))
    assert maximal(DOMAIN, [()]) == ((),)


def test_the_home_of_a_clique_is_the_smallest_that_contains_it() -> None:
    cliques = (("a", "b", "c"), ("b", "c"), ("a", "b"))
    assert [smallest_containing(clique, cliques, DOMAIN) for clique in (("b",), ("c",), ("a", "c"), ())] == [2, 1, 0, 2]
    with pytest.raises(ValueError, match="lies in none of 1 cliques"):
        smallest_containing(("a",), (("b",),), DOMAIN)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("signed", [True, False])
def test_no_pair_of_columns_bends_more_than_the_curvature(seed: int, signed: bool) -> None:
    products = random_products(DOMAIN, np.random.default_rng(seed), signed=signed)
    for part in linear_measurements(measurement(products)):
        columns = dense(part).T
        pairs = columns[:, None] - columns[None]
        assert part.precision / 4 * (pairs**2).sum(axis=2).max() <= part.curvature * (1 + 1e-12)


def test_the_curvature_of_a_whole_marginal_is_attained() -> None:
    one, total = linear_measurements(measurement(Marginals(DOMAIN, (("a", "b"), ()))))
    assert one.curvature == one.precision * 2 / 4
    assert total.curvature == 0
