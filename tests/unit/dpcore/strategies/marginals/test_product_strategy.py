"""Integer products for a workload of ranges against dense strategies and published figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.kernel.product_sensitivity import largest_l1
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals
from dpcore.strategies.marginals.product_strategy import ProductStrategy, clique_weights_and_matrices, product_strategy

SMALL = Domain.of({"a": 7, "b": 2, "c": 6})
ASKED: dict[Clique, float] = {("a", "b"): 1.0, ("c",): 2.0, ("b", "c"): 0.5, (): 1.0, ("a", "c"): 1.0}
RANGES = {"a": all_ranges(7), "c": prefix(6)}
Matrices = dict[str, NDArray[np.int64]]


def dense(domain: Domain, clique: Clique, matrices: Iterable[NDArray[np.generic]]) -> NDArray[np.float64]:
    by_name = dict(zip(clique, matrices, strict=True))
    factors = [by_name.get(name, np.ones((1, size))) for name, size in zip(domain.names, domain.sizes, strict=True)]
    return np.asarray(reduce(np.kron, factors, np.ones((1, 1))), dtype=np.float64)


def dense_error(domain: Domain, asked: dict[Clique, float], matrices: Matrices, result: ProductStrategy) -> float:
    """Of the integers that are measured, at the sensitivity that the kernel derives."""
    parts = []
    for queries, weight in zip(result.queries, result.weights.tolist(), strict=True):
        (term,) = queries.terms
        parts.append(weight / largest_l1(queries) * dense(domain, term.clique, term.matrices))
    strategy = np.vstack(parts)
    assert np.abs(strategy).sum(axis=0).max() <= 1 + 1e-9
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    workload = np.vstack(
        [
            math.sqrt(weight) * dense(domain, clique, [matrices.get(name, identity(sizes[name])) for name in clique])
            for clique, weight in asked.items()
        ]
    )
    inverse = np.linalg.pinv(strategy, rcond=1e-9)
    assert np.allclose(workload @ inverse @ strategy, workload, atol=1e-6)
    return float(np.sum((workload @ inverse) ** 2))


def test_its_error_is_the_dense_one_of_the_integers() -> None:
    result = product_strategy(SMALL, ASKED, RANGES, effort=1e7)
    assert result.error == pytest.approx(dense_error(SMALL, ASKED, RANGES, result))
    assert result.weights.sum() == pytest.approx(1)
    assert sum(result.shares) <= 1
    assert all(isinstance(share, Fraction) for share in result.shares)
    again = product_strategy(SMALL, ASKED, RANGES, effort=1e7)
    assert [one.digest() for one in again.queries] == [one.digest() for one in result.queries]
    assert np.array_equal(again.weights, result.weights)


def test_products_of_many_ranges_have_fewer_bits() -> None:
    domain = Domain.of({f"x{place}": 12 for place in range(4)})
    result = product_strategy(domain, {domain.names: 1.0}, dict.fromkeys(domain.names, prefix(12)), effort=1e7)
    (queries,) = result.queries
    (term,) = queries.terms
    assert largest_l1(queries) < 2**26
    assert queries.denominator == 2**24
    each = [np.sum((prefix(12) @ np.linalg.pinv(matrix.astype(float))) ** 2) for matrix in term.matrices]
    assert result.error == pytest.approx(math.prod(each) * largest_l1(queries) ** 2)
    assert result.error < 67.7**4


def test_queries_that_tell_no_total_and_single_totals() -> None:
    """No total comes out of codes 0 to 2 of 7, so that a clique without the attribute is measured apart."""
    matrices: Matrices = {"a": identity(7)[:3], "b": np.ones((1, 2), dtype=np.int64), "c": prefix(6)}
    asked: dict[Clique, float] = {("a", "b"): 1.0, ("a", "c"): 3.0, ("c",): 1.0}
    result = product_strategy(SMALL, asked, matrices, effort=1e7)
    assert any("a" not in queries.terms[0].clique for queries in result.queries)
    assert result.error == pytest.approx(dense_error(SMALL, asked, matrices, result))


def test_what_a_workload_asks() -> None:
    queries = range_marginals(SMALL, [("a", "b"), ("b", "a"), ("c",)], {"c": prefix(6)})
    asked, matrices = clique_weights_and_matrices(queries, np.array([1.0, 2.0, 3.0]))
    assert asked == {("a", "b"): 5.0, ("c",): 9.0}
    assert list(matrices) == ["c"]
    different = Products(SMALL, (Product(("c",), (prefix(6),)), Product(("c",), (identity(6),))))
    with pytest.raises(ValueError, match="different queries about 'c'"):
        clique_weights_and_matrices(different, np.ones(2))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown attribute"):
        product_strategy(SMALL, ASKED, {"z": prefix(6)})
    with pytest.raises(ValueError, match="no clique"):
        product_strategy(SMALL, {}, RANGES)


def schema(
    sizes: tuple[int, ...], cliques: Iterable[Clique], max_cells: float
) -> tuple[Domain, dict[Clique, float], int]:
    """A domain, its cliques of at most so many cells, and the number of these cells."""
    domain = Domain(tuple(f"x{i}" for i in range(len(sizes))), sizes)
    asked = {clique: 1.0 for clique in cliques if domain.size(clique) <= max_cells}
    return domain, asked, sum(domain.size(clique) for clique in asked)


def root_mean_square(asked: tuple[Domain, dict[Clique, float], int], numeric: int) -> float:
    """At epsilon 1, of the strategy for prefixes of the first attributes."""
    domain, weights, rows = asked
    matrices = {name: prefix(size) for name, size in zip(domain.names[:numeric], domain.sizes[:numeric], strict=True)}
    return math.sqrt(2 * product_strategy(domain, weights, matrices, effort=4e8).error / rows)


def test_prefix_marginals_of_cps_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 40.59."""
    cliques = [("x0", "x1", *rest) for k in range(4) for rest in combinations(("x2", "x3", "x4"), k)]
    result = schema((50, 100, 7, 4, 2), cliques, math.inf)
    assert result[2] == 600_000
    assert root_mean_square(result, 2) < 40.545


@pytest.mark.full
def test_prefix_marginals_of_adult_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 484.07."""
    sizes = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    result = schema(sizes, combinations([f"x{i}" for i in range(14)], 2), math.inf)
    assert result[2] == 148_137
    assert root_mean_square(result, 5) < 373


@pytest.mark.full
def test_small_prefix_marginals_of_loans_beat_the_published_figure() -> None:
    """Thesis, Table 3.4: 288.29."""
    names = [f"x{i}" for i in range(12)]
    cliques = [clique for k in range(13) for clique in combinations(names, k)]
    result = schema((101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15), cliques, 5000)
    assert (len(result[1]), result[2]) == (188, 279_751)
    assert root_mean_square(result, 4) < 222


@pytest.mark.parametrize(
    "asked", [{(): 1.0}, {("one",): 2.0}, {("one", "a"): 1.0, ("b",): 1.0}, {("a", "b"): 1.0, ("one",): 3.0}], ids=str
)
def test_attributes_of_one_value_and_the_number_of_rows(asked: dict[Clique, float]) -> None:
    domain = Domain.of({"one": 1, "a": 9, "b": 3})
    matrices: Matrices = {"one": np.ones((2, 1), dtype=np.int64), "a": prefix(9), "b": all_ranges(3)}
    result = product_strategy(domain, asked, matrices, effort=1e6)
    assert result.error == pytest.approx(dense_error(domain, asked, matrices, result))
