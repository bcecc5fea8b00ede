"""Least-squares-consistent marginals against dense generalised least squares over all cells of the domain."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.estimation.graphical.fitting.consistency import (
    LeastSquares,
    estimate_total,
)
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount
from dpcore.queries.residual_matrices import residual_matrix

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 1, "e": 2})
SETS: dict[str, tuple[str, ...]] = {
    "one": ("abc",),
    "chain": ("ab", "bc", "ce"),
    "cycle": ("ab", "bc", "ac"),
    "repeated": ("bc", "bc", "ab", "bc"),
    "nested": ("abc", "bc", "c", "", "ae"),
    "one value": ("bd", "d", "cde"),
    "disjoint": ("ae", "bc"),
}


def summing(clique: Clique) -> NDArray[np.float64]:
    """The matrix that takes all cells of the domain to a marginal: [cells of the clique, cells of the domain]."""
    factors = [np.eye(size) if name in clique else np.ones((1, size)) for name, size in zip(*named(), strict=True)]
    found = np.ones((1, 1))
    for factor in factors:
        found = np.kron(found, factor)
    return found


def named() -> tuple[tuple[str, ...], tuple[int, ...]]:
    return DOMAIN.names, DOMAIN.sizes


def measured(words: tuple[str, ...], seed: int) -> list[Measurement]:
    """Any values: the estimate is linear in them. Two words at a time share a measurement."""
    generator = np.random.default_rng(seed)
    found = []
    for first in range(0, len(words), 2):
        queries = Marginals(DOMAIN, tuple(tuple(word) for word in words[first : first + 2]))
        values = generator.normal(30, 20, queries.size)
        found.append(Measurement(queries, values, Noise.GAUSSIAN, float(generator.uniform(0.5, 5))))
    return found


def dense(measurements: list[Measurement]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The estimate of all cells of the domain, and its covariance, up to what no measurement sees."""
    blocks = [
        summing(c) / m.stddev for m in measurements if isinstance(m.queries, Marginals) for c in m.queries.cliques
    ]
    rows = np.concatenate(blocks)
    values = np.concatenate([m.values / m.stddev for m in measurements])
    covariance = np.linalg.pinv(rows.T @ rows, rcond=1e-10)
    return covariance @ rows.T @ values, covariance


def subcliques(words: tuple[str, ...]) -> list[Clique]:
    return sorted({tuple(name for name in word if name != left) for word in words for left in (*word, "")})


@pytest.mark.parametrize("case", SETS)
def test_marginals_are_the_generalised_least_squares(case: str) -> None:
    measurements, cliques = measured(SETS[case], 1), subcliques(SETS[case])
    cells, _ = dense(measurements)
    estimates = LeastSquares(DOMAIN, measurements)
    for clique in cliques:
        table = estimates.marginal(clique)
        assert table.shape == DOMAIN.shape(clique)
        np.testing.assert_allclose(table.ravel(), summing(clique) @ cells, rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", SETS)
def test_every_cell_of_a_clique_has_the_variance_of_the_least_squares(case: str) -> None:
    measurements, cliques = measured(SETS[case], 2), subcliques(SETS[case])
    _, covariance = dense(measurements)
    estimates = LeastSquares(DOMAIN, measurements)
    for clique in cliques:
        variance = estimates.variance(clique)
        wanted = np.diag(summing(clique) @ covariance @ summing(clique).T)
        np.testing.assert_allclose(np.full(wanted.size, variance), wanted, rtol=1e-9)


@pytest.mark.parametrize("beside", [(), ("abc", "c")], ids=["alone", "marginals beside"])
def test_residuals_are_part_of_the_generalised_least_squares(beside: tuple[str, ...]) -> None:
    """All parts of (b, c), with the variance in every direction by the dense covariance."""
    cliques: tuple[Clique, ...] = ((), ("b",), ("c",), ("b", "c"))
    terms = [Product(one, tuple(map(residual_matrix, DOMAIN.shape(one))), 5 - len(one)) for one in cliques]
    queries = Products(DOMAIN, tuple(terms))
    values = np.random.default_rng(8).normal(30, 20, queries.size)
    measurements = [Measurement(queries, values, Noise.GAUSSIAN, 2.0), *measured(beside, 8)]
    rows = [term.weight / 2 * reduce(np.kron, term.matrices, np.ones((1, 1))) @ summing(term.clique) for term in terms]
    whole = [summing(c) / m.stddev for m in measurements[1:] for c in m.queries.cliques]  # type: ignore[union-attr]
    matrix = np.concatenate([*rows, *whole])
    covariance = np.linalg.pinv(matrix.T @ matrix, rcond=1e-10)
    cells = covariance @ matrix.T @ np.concatenate([one.values / one.stddev for one in measurements])
    found = LeastSquares(DOMAIN, measurements)
    for clique in cliques:
        assert found.holds(clique)
        np.testing.assert_allclose(found.marginal(clique).ravel(), summing(clique) @ cells, atol=1e-9)
        wanted = summing(clique) @ covariance @ summing(clique).T
        assert found.variance(clique) == pytest.approx(wanted[0, 0])
        assert found.largest_variance(clique) == pytest.approx(np.linalg.eigvalsh(wanted)[-1])
    assert found.holds(("a",)) == bool(beside)


def test_exact_marginals_are_returned_as_they_are() -> None:
    table = np.random.default_rng(3).integers(0, 9, DOMAIN.size()).astype(float)
    exact = [
        Measurement(Marginals(DOMAIN, (clique,)), summing(clique) @ table, Noise.GAUSSIAN, sigma)
        for clique, sigma in ((("a", "b"), 1.0), (("b", "c"), 7.0))
    ]
    estimates = LeastSquares(DOMAIN, exact)
    for clique in (("a", "b"), ("b",), ("c",)):
        np.testing.assert_allclose(estimates.marginal(clique).ravel(), summing(clique) @ table, rtol=1e-12, atol=1e-9)


def test_the_attributes_of_a_clique_may_come_in_any_order() -> None:
    measurements = measured(("abc",), 4)
    estimates = LeastSquares(DOMAIN, measurements)
    np.testing.assert_array_equal(estimates.marginal(("b", "a")), estimates.marginal(("a", "b")))


def test_a_clique_that_nobody_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no measurement holds \('a', 'c'\)"):
        LeastSquares(DOMAIN, measured(("ab", "bc"), 5)).marginal(("a", "c"))
    with pytest.raises(ValueError, match="no measurement holds"):
        LeastSquares(DOMAIN, measured(("ab",), 5)).variance(("c",))


def test_measurements_that_are_no_marginals_are_refused() -> None:
    products = Products(DOMAIN, (Product(("a",), (np.eye(2, dtype=int),)),))
    columns = Conjunctions.single_columns(BinaryView(4))
    for queries in (products, columns):
        with pytest.raises(TypeError, match="marginals"):
            LeastSquares(DOMAIN, [Measurement(queries, np.ones(queries.size), Noise.GAUSSIAN, 1.0)])


def test_a_measurement_of_another_domain_is_refused() -> None:
    other = Measurement(Marginals(Domain.of({"a": 2}), (("a",),)), np.ones(2), Noise.GAUSSIAN, 1.0)
    with pytest.raises(ValueError, match="another domain"):
        estimate_total(DOMAIN, [other])


@pytest.mark.parametrize("case", SETS)
def test_the_total_is_the_generalised_least_squares(case: str) -> None:
    measurements = measured(SETS[case], 6)
    cells, covariance = dense(measurements)
    value, stddev = estimate_total(DOMAIN, measurements)
    ones = np.ones(DOMAIN.size())
    np.testing.assert_allclose(value, ones @ cells, rtol=1e-10)
    np.testing.assert_allclose(stddev**2, ones @ covariance @ ones, rtol=1e-9)


def test_the_total_of_products_is_unbiased_with_its_standard_deviation() -> None:
    """A prefix matrix times the identity, weighted, over a denominator, beside a product without the total."""
    generator = np.random.default_rng(7)
    prefix = np.tril(np.ones((4, 4), dtype=int))
    total_row = Product(("a", "c"), (np.eye(2, dtype=int), prefix), 3)
    blind = Product(("b",), (np.array([[1, -1, 0]]),))
    queries = Products(DOMAIN, (total_row, blind), 2)
    table = generator.uniform(0, 50, 8)
    exact = np.concatenate([1.5 * np.kron(np.eye(2), prefix) @ table, [4.0]])
    value, stddev = estimate_total(DOMAIN, [Measurement(queries, exact, Noise.GAUSSIAN, 2.0)])
    np.testing.assert_allclose(value, table.sum(), rtol=1e-12)
    # The last prefix of each value of a is its count, times 3 / 2: the sum of two values with noise 2 each.
    np.testing.assert_allclose(stddev, np.sqrt(2) * 2 / 1.5, rtol=1e-12)


def test_residuals_tell_the_total_by_their_first_alone() -> None:
    terms = (Product((), (), 3), *(Product((name,), (residual_matrix(size),)) for name, size in (("b", 3), ("c", 4))))
    queries = Products(DOMAIN, terms)
    values = np.concatenate([[3 * 50.0], np.full(queries.size - 1, 1e6)])
    assert estimate_total(DOMAIN, [Measurement(queries, values, Noise.GAUSSIAN, 6.0)]) == pytest.approx((50, 2))


def test_measurements_that_do_not_determine_the_total_are_refused() -> None:
    queries = Products(DOMAIN, (Product(("b",), (np.array([[1, 1, 0]]),)),))
    with pytest.raises(ValueError, match="number of records"):
        estimate_total(DOMAIN, [Measurement(queries, np.ones(1), Noise.GAUSSIAN, 1.0)])
    with pytest.raises(TypeError, match="UnitCount"):
        estimate_total(DOMAIN, [Measurement(UnitCount(), np.ones(1), Noise.GAUSSIAN, 1.0)])
