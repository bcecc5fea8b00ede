"""Non-negative and consistent answers: what they promise, how near the optimum they are, and what they are worth."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, nnls

from dpcore.domain import Clique, Domain
from dpcore.estimation.linear_answers import product_of_table
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent, nonnegative_products
from dpcore.queries import Marginals, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals

Real = NDArray[np.float64]


def exact(domain: Domain, cliques: list[Clique], rows: int, skew: float, seed: int) -> list[Real]:
    """Tables of rows whose attributes are independent, some values of them rare where ``skew`` is small."""
    generator = np.random.default_rng(seed)
    chances = [generator.dirichlet(np.full(size, skew)) for size in domain.sizes]
    codes = [generator.choice(len(one), size=rows, p=one) for one in chances]
    tables = []
    for clique in cliques:
        shape = domain.shape(clique)
        flat = np.ravel_multi_index([codes[axis] for axis in domain.axes(clique)], shape) if clique else np.zeros(rows)
        tables.append(np.bincount(flat.astype(int), minlength=domain.size(clique)).astype(float).reshape(shape))
    return tables


def noisy(queries: Marginals, rows: int, skew: float, stddev: float, seed: int = 0) -> tuple[Real, Real]:
    """(exact answers, with noise)"""
    truth = np.concatenate([one.ravel() for one in exact(queries.domain, list(queries.cliques), rows, skew, seed)])
    return truth, truth + np.random.default_rng(seed + 1).normal(0, stddev, truth.size)


def disagreement(queries: Marginals, values: Real) -> float:
    """The largest difference of two tables on the attributes that they share, their total too."""
    tables = list(zip(queries.cliques, queries.split(values), strict=True))
    worst = 0.0
    for (left, one), (right, other) in combinations(tables, 2):
        shared = [name for name in left if name in right]
        sums = [
            table.sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in shared))
            for clique, table in ((left, one), (right, other))
        ]
        worst = max(worst, float(np.abs(sums[0] - sums[1]).max()))
    return worst


DOMAIN = Domain(("a", "b", "c", "d"), (4, 5, 3, 6))
PAIRS = Marginals(DOMAIN, tuple(combinations(DOMAIN.names, 2)))
MIXED = Marginals(DOMAIN, ((), ("a",), ("b", "a"), ("a", "b", "c"), ("c", "d"), ("c", "d")))
workloads = pytest.mark.parametrize("queries", [PAIRS, MIXED, PAIRS.only([("b",)]), PAIRS.only([()])])


@workloads
@pytest.mark.parametrize("rows", [3, 100, 10_000])
@pytest.mark.parametrize("total", [None, 80.0])
def test_tables_are_non_negative_and_agree(queries: Marginals, rows: int, total: float | None) -> None:
    stddevs = np.repeat(np.linspace(2, 9, len(queries.cliques)), queries.sizes)
    _, values = noisy(queries, rows, 0.5, 8.0)
    result = nonnegative_consistent(queries, values, stddevs, total)
    assert result.shape == (queries.size,)
    assert (result >= 0).all()
    assert disagreement(queries, result) < 1e-6
    if total is not None:
        assert [one.sum() for one in queries.split(result)] == pytest.approx([total] * len(queries.cliques))


@workloads
def test_what_is_so_already_stays(queries: Marginals) -> None:
    stddevs = np.full(queries.size, 3.0)
    truth, values = noisy(queries, 200, 0.3, 3.0)
    assert np.allclose(nonnegative_consistent(queries, truth, stddevs), truth, atol=1e-9)
    once = nonnegative_consistent(queries, values, stddevs)
    assert np.allclose(nonnegative_consistent(queries, once, stddevs), once, atol=1e-7)


def test_it_is_the_optimum_of_the_quadratic_program() -> None:
    """Against non-negative least squares with heavy constraints, for cliques of different noise."""
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    queries = Marginals(domain, (("a", "b"), ("b", "c"), ("a", "c")))
    stddevs = np.repeat([1.0, 3.0, 2.0], queries.sizes)
    _, values = noisy(queries, 10, 0.4, 4.0, seed=3)
    result = nonnegative_consistent(queries, values, stddevs, 10.0, tolerance=1e-6)
    rows = []
    for left, right in combinations(range(3), 2):
        for name in set(queries.cliques[left]) & set(queries.cliques[right]):
            for code in range(domain.shape((name,))[0]):
                row = [np.zeros(domain.shape(clique)) for clique in queries.cliques]
                for place, sign in ((left, 1.0), (right, -1.0)):
                    np.moveaxis(row[place], queries.cliques[place].index(name), 0)[code] = sign
                rows.append(np.concatenate([one.ravel() for one in row]))
    totals = [np.repeat([float(place == which) for place in range(3)], queries.sizes) for which in range(3)]
    heavy = 1e4 * np.array([*rows, *totals])
    expected = np.concatenate([values / stddevs, np.zeros(len(rows)), np.full(3, 1e5)])
    solved, _ = nnls(np.vstack([np.diag(1 / stddevs), heavy]), expected)
    assert np.allclose(result, solved, atol=1e-3)


@pytest.mark.parametrize(
    ("sizes", "rows", "skew", "part"),
    [((10, 10, 10, 10), 1000, 0.3, 0.5), ((30, 30, 30), 300, 0.2, 0.1), ((4, 5, 6), 500, 1.0, 0.9)],
)
def test_sparse_tables_gain_much(sizes: tuple[int, ...], rows: int, skew: float, part: float) -> None:
    """Squared error as a part of that of the consistent tables without signs, mean of 5 seeds."""
    domain = Domain(tuple("abcd"[: len(sizes)]), sizes)
    queries = Marginals(domain, tuple(combinations(domain.names, 2)))
    stddevs = np.full(queries.size, 10.0)
    errors = np.zeros((5, 2))
    for seed in range(5):
        truth, values = noisy(queries, rows, skew, 10.0, seed)
        # Far from 0 no sign matters: what is left is least squares.
        lifted = nonnegative_consistent(queries, values + 1e5 / _sizes(queries), stddevs) - 1e5 / _sizes(queries)
        result = nonnegative_consistent(queries, values, stddevs)
        errors[seed] = ((lifted - truth) ** 2).mean(), ((result - truth) ** 2).mean()
    assert errors[:, 0].mean() < 100  # Of the noise itself.
    assert errors[:, 1].mean() < part * errors[:, 0].mean()


def _sizes(queries: Marginals) -> Real:
    return np.repeat(np.array(queries.sizes, dtype=float), queries.sizes)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([20, 200, 5000]), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_error_is_never_larger_than_that_of_the_values(seed: int, rows: int, skew: float) -> None:
    """The truth is among the tables that are projected on, where the total is known: no distance to it can grow."""
    truth, values = noisy(MIXED, rows, skew, 6.0, seed)
    result = nonnegative_consistent(MIXED, values, np.full(MIXED.size, 6.0), float(rows))
    assert ((result - truth) ** 2).sum() <= ((values - truth) ** 2).sum() * 1.001
    free = nonnegative_consistent(MIXED, values, np.full(MIXED.size, 6.0))
    assert ((free - truth) ** 2).sum() <= ((values - truth) ** 2).sum() * 1.1


def test_no_rows_are_no_rows() -> None:
    values = np.full(PAIRS.size, -1.0)
    assert not nonnegative_consistent(PAIRS, values, np.ones(PAIRS.size)).any()
    assert not nonnegative_consistent(PAIRS, values, np.ones(PAIRS.size), 0.0).any()


def products(matrices: dict[str, NDArray[np.int64]], cliques: list[Clique]) -> tuple[Products, Real]:
    queries = range_marginals(DOMAIN, cliques, matrices)
    tables = exact(DOMAIN, cliques, 60, 0.3, seed=5)
    pairs = zip(queries.terms, tables, strict=True)
    return queries, np.concatenate([product_of_table(term, table) for term, table in pairs])


CLIQUES: list[Clique] = [("a", "d"), ("d",), ("a", "d"), ("b",)]


def test_answers_of_products_are_those_of_tables() -> None:
    queries, truth = products({"d": prefix(6, 5), "a": all_ranges(4)}, CLIQUES)
    stddevs = np.random.default_rng(1).uniform(2, 6, truth.size)
    values = truth + stddevs * np.random.default_rng(2).normal(size=truth.size)
    result = nonnegative_products(queries, values, stddevs)
    parts = np.split(result, np.cumsum([term.size for term in queries.terms])[:-1])
    assert np.allclose(parts[0], parts[2], atol=1e-9)
    table = np.linalg.pinv(all_ranges(4)) @ parts[0].reshape(10, 6) @ np.linalg.inv(prefix(6, 5)).T
    assert table.min() > -1e-9
    assert np.allclose(product_of_table(queries.terms[0], table), parts[0])
    assert parts[3].sum() == pytest.approx(table.sum())
    assert ((result - truth) ** 2).sum() < ((values - truth) ** 2).sum()
    assert np.allclose(nonnegative_products(queries, truth, stddevs), truth, atol=1e-6)


def test_prefixes_become_the_isotonic_regression() -> None:
    domain = Domain(("x",), (12,))
    queries = range_marginals(domain, [("x",)], {"x": prefix(12)})
    values = np.cumsum(np.random.default_rng(4).normal(1, 6, 12)) + 40
    result = nonnegative_products(queries, values, np.full(12, 2.0), 50.0, tolerance=1e-6)
    monotone = np.asarray(isotonic_regression(values[:-1]).x)
    assert np.allclose(result, [*np.clip(monotone, 0, 50), 50], atol=1e-3)


def test_the_fitted_table_is_that_of_non_negative_least_squares() -> None:
    domain = Domain(("x",), (7,))
    queries = range_marginals(domain, [("x",), ("x",)], {"x": all_ranges(7)})
    stddevs = np.random.default_rng(6).uniform(1, 4, queries.size)
    values = np.random.default_rng(7).normal(3, 8, queries.size)
    matrix = np.vstack([all_ranges(7)] * 2) / stddevs[:, None]
    heavy = 1e5 * np.ones((1, 7))
    table, _ = nnls(np.vstack([matrix, heavy]), np.append(values / stddevs, 1e5 * 9))
    result = nonnegative_products(queries, values, stddevs, 9.0, tolerance=1e-6)
    assert np.allclose(result[:28], all_ranges(7) @ table, atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    ones = np.ones(PAIRS.size)
    with pytest.raises(ValueError, match="values of shape"):
        nonnegative_consistent(PAIRS, ones[:-1], ones)
    with pytest.raises(ValueError, match="stddev that is not positive"):
        nonnegative_consistent(PAIRS, ones, 0 * ones)
    with pytest.raises(ValueError, match="stddev that is not positive"):
        nonnegative_consistent(PAIRS, ones, np.nan * ones)
    with pytest.raises(ValueError, match="a total of -1 rows"):
        nonnegative_consistent(PAIRS, ones, ones, -1.0)
    some = range_marginals(DOMAIN, [("a",)], {"a": identity(4)[:2]})
    with pytest.raises(ValueError, match="no answer determines the number of rows"):
        nonnegative_products(some, np.ones(2), np.ones(2))
    assert nonnegative_products(some, np.array([3.0, -2.0]), np.ones(2), 4.0) == pytest.approx([3, 0], abs=1e-3)
