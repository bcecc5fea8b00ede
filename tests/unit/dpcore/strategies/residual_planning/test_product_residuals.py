"""Residual plans of products against dense least squares, dense optima and figures of the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.kernel.product_sensitivity import largest_squared_l2
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals
from dpcore.queries.residual_frames import ResidualFrame
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.residual_planning.planning import least_squared_error
from dpcore.strategies.residual_planning.product_residuals import product_residuals

SIGMA = 4.2246788893268326  # Of the analytic Gaussian mechanism at epsilon 1 and delta 1e-6.
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
Real = NDArray[np.float64]


def domain_of(sizes: Sequence[int]) -> Domain:
    return Domain(tuple(f"x{place:02}" for place in range(len(sizes))), tuple(sizes))


def asked(sizes: Sequence[int], ordered: int, cliques: Sequence[tuple[int, ...]]) -> Products:
    """Prefixes of the first attributes, values of the others."""
    domain = domain_of(sizes)
    named = [tuple(domain.names[place] for place in clique) for clique in cliques]
    return range_marginals(domain, named, {domain.names[place]: prefix(sizes[place]) for place in range(ordered)})


def pairs(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(combinations(range(len(sizes)), 2))


def rmse(queries: Products, error: float) -> float:
    return SIGMA * math.sqrt(error / queries.size)


def dense(domain: Domain, terms: Sequence[Product], weights: Sequence[float] | None = None) -> Real:
    """Terms over all cells of the domain, one above the other."""
    rows = []
    for term, weight in zip(terms, weights or [float(term.weight) for term in terms], strict=True):
        named: Mapping[str, NDArray[np.int64]] = dict(zip(term.clique, term.matrices, strict=True))
        factors = [named.get(name, np.ones((1, size))) for name, size in zip(domain.names, domain.sizes, strict=True)]
        rows.append(weight * reduce(np.kron, factors, np.ones((1, 1))))
    return np.concatenate(rows)


CASES = {
    "ppp": asked((5, 5, 5), 3, pairs((5,) * 3)),
    "ppii": asked((6, 5, 3, 2), 2, pairs((6, 5, 3, 2))),
    "pppii": asked((7, 5, 2, 2), 3, pairs((7, 5, 2, 2))),
}
OPEN = {
    "not closed": asked((6, 5, 4), 2, [(0, 1, 2), (), (1,), (0,)]),
    "ranges": range_marginals(
        domain_of((6, 1, 5)), [("x00", "x01"), ("x00", "x02"), ("x02",)], {"x00": all_ranges(6), "x02": prefix(5, 3)}
    ),
    "few queries": range_marginals(
        domain_of((6, 5)), [("x00", "x01"), ("x01",)], {"x00": np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]])}
    ),
    "totals": range_marginals(
        domain_of((6, 5, 4)), [("x00", "x01"), ("x00", "x02"), ("x01",)],
        {"x00": np.ones((1, 6), dtype=np.int64), "x01": prefix(5)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES | OPEN)
def test_the_error_is_that_of_dense_least_squares(name: str) -> None:
    queries = (CASES | OPEN)[name]
    weights = np.linspace(1, 3, len(queries.terms))
    plan = product_residuals(queries, weights)
    assert plan.queries.denominator == math.isqrt(plan.squared_sensitivity)
    strategy = dense(queries.domain, plan.queries.terms)
    workload = dense(queries.domain, queries.terms, np.sqrt(weights).tolist())
    unit = strategy / math.sqrt(plan.squared_sensitivity)
    reconstruction = workload @ np.linalg.pinv(unit, rcond=1e-10)
    assert np.abs(reconstruction @ unit - workload).max() < 1e-7
    assert plan.error == pytest.approx(float((reconstruction**2).sum()), rel=1e-6)
    squares = (strategy**2).sum(axis=0)
    largest = largest_squared_l2(plan.queries)
    assert squares.max() == pytest.approx(largest, rel=1e-9)
    assert largest <= plan.squared_sensitivity <= largest * (1 + 2e-3)


@pytest.mark.parametrize("name", CASES)
def test_they_are_near_the_optimum_and_the_bound_is_below_it(name: str) -> None:
    queries = CASES[name]
    plan = product_residuals(queries, np.ones(len(queries.terms)))
    rows = dense(queries.domain, queries.terms)
    best = gaussian_optimum(rows.T @ rows, gap=1e-4, steps=200)
    assert best.gap < 1e-3
    assert 0.99 * best.bound < plan.bound < best.error
    assert best.bound < plan.error < 1.01 * best.bound
    assert plan.ideal < plan.error * (1 + 1e-3)


@pytest.mark.parametrize(
    ("sizes", "ordered", "known", "optimum"), [((8, 8, 8), 3, 3.0990, 3.0847), ((9, 8, 4, 3), 2, 3.0605, 3.0525)]
)
def test_known_optima(sizes: tuple[int, ...], ordered: int, known: float, optimum: float) -> None:
    """Of dense optimisation, and of one gamma for all attributes; a unit of noise each."""
    queries = asked(sizes, ordered, pairs(sizes))
    plan = product_residuals(queries, np.ones(len(queries.terms)))
    assert optimum - 5e-5 < rmse(queries, plan.error) / SIGMA < known + 5e-5
    assert 0.998 * optimum < rmse(queries, plan.bound) / SIGMA < optimum


def test_two_way_prefix_marginals_of_adult() -> None:
    queries = asked(ADULT, 5, pairs(ADULT))
    assert queries.size == 148_137
    plan = product_residuals(queries, np.ones(91))
    kernel = plan.variance * largest_squared_l2(plan.queries)
    assert rmse(queries, kernel) <= 70.8521
    assert rmse(queries, plan.bound) >= 70.12
    assert kernel <= plan.error
    assert product_residuals(queries, np.ones(91)) is plan


def test_small_prefix_marginals_of_loans() -> None:
    places = range(len(LOANS))
    cliques = [
        clique
        for order in range(len(LOANS) + 1)
        for clique in combinations(places, order)
        if math.prod(LOANS[place] for place in clique) <= 5000
    ]
    queries = asked(LOANS, 4, cliques)
    assert (len(cliques), queries.size) == (188, 279_751)
    plan = product_residuals(queries, np.ones(188))
    assert rmse(queries, plan.variance * largest_squared_l2(plan.queries)) <= 53.6868
    assert rmse(queries, plan.bound) >= 53.1


def test_one_product_costs_the_product_of_optima() -> None:
    queries = asked((16, 9), 2, [(0, 1)])
    plan = product_residuals(queries, np.ones(1))
    bounds = [gaussian_optimum((prefix(n).T @ prefix(n)).astype(np.float64)).bound for n in (16, 9)]
    assert plan.bound == pytest.approx(math.prod(bounds), rel=2e-3)
    assert plan.bound <= math.prod(bounds) * (1 + 1e-9)
    assert math.prod(bounds) <= plan.error < math.prod(bounds) * (1 + 3e-3)


def test_for_marginals_it_is_residual_planning() -> None:
    queries = asked((6, 5, 8), 0, [(0, 1), (1, 2), (2,)])
    weights = [1.0, 0.2, 5.0]
    plan = product_residuals(queries, np.array(weights))
    cliques = [term.clique for term in queries.terms]
    known = least_squared_error(queries.domain, dict(zip(cliques, weights, strict=True)))
    assert plan.ideal == pytest.approx(known.error)
    assert plan.bound == pytest.approx(known.bound)
    assert plan.error == pytest.approx(known.error, rel=1e-4)
    assert {term.clique for term in plan.queries.terms} == set(known.residuals)


def test_weights_move_the_noise() -> None:
    queries = asked((10, 8, 3), 2, [(0, 1), (2,)])
    even, lean = product_residuals(queries, np.ones(2)), product_residuals(queries, np.array([1.0, 1e4]))
    precise = [
        next(term.weight for term in plan.queries.terms if term.clique == ("x02",))
        / math.sqrt(plan.squared_sensitivity)
        for plan in (even, lean)
    ]
    assert precise[1] > 1.5 * precise[0]
    assert lean.error < 1e4 * even.error


def test_a_repeated_term_counts_twice() -> None:
    once, twice = asked((7, 4), 1, [(0, 1), (0,)]), asked((7, 4), 1, [(0, 1), (0,), (0,)])
    result = [product_residuals(once, np.array([1.0, 2.0])), product_residuals(twice, np.ones(3))]
    assert result[0].error == pytest.approx(result[1].error)
    assert [term.weight for term in result[0].queries.terms] == [term.weight for term in result[1].queries.terms]


def test_every_part_is_measured_through_one_matrix_an_attribute_and_answers_fit() -> None:
    queries = asked((9, 30, 4, 5), 2, [(0, 1, 2), (1, 3)])
    plan = product_residuals(queries, np.array([1.0, 1e-30]))
    domain = queries.domain
    expected: set[Clique] = {
        part for term in queries.terms for order in range(4) for part in combinations(term.clique, order)
    }
    assert {term.clique for term in plan.queries.terms} == expected
    held: dict[str, NDArray[np.int64]] = {}
    for term in plan.queries.terms:
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            assert np.array_equal(held.setdefault(name, matrix), matrix)
        entries = term.weight * math.prod(int(np.abs(matrix).max()) for matrix in term.matrices)
        assert entries <= 1 << 30
    for name, matrix in held.items():
        assert ResidualFrame.of(matrix).matrix.shape[1] == domain.shape((name,))[0]


def test_the_rows_alone() -> None:
    plan = product_residuals(asked((4,), 1, [()]), np.ones(1))
    assert [(term.clique, term.weight) for term in plan.queries.terms] == [((), 1)]
    assert plan.error == plan.bound == 1


def test_what_is_refused() -> None:
    domain = domain_of((4, 3))
    term, other = Product(("x00",), (prefix(4),)), Product(("x00", "x01"), (identity(4), identity(3)))
    with pytest.raises(ValueError, match="attribute 'x00' is queried through two matrices; want one in all terms"):
        product_residuals(Products(domain, (term, other)), np.ones(2))
    for weights in (np.ones(2), np.array([0.0]), np.array([np.nan])):
        with pytest.raises(ValueError, match="want 1 positive finite numbers"):
            product_residuals(Products(domain, (term,)), weights)
