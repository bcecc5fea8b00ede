"""Marginals from residuals, and their variances, against dense least squares and dense covariances."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.residual_planning.bases import joint_queries
from dpcore.strategies.residual_planning.planning import least_squared_error
from dpcore.testing.doubles import WatchedStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.residual_queries import residual_queries

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 1, "d": 5})
TRUTH = np.random.default_rng(1).integers(0, 30, size=DOMAIN.sizes)
Matrix = NDArray[np.float64]


def parts(clique: Clique) -> list[Clique]:
    return [part for order in range(len(clique) + 1) for part in combinations(clique, order)]


def table(clique: Clique) -> NDArray[np.int64]:
    others = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)
    return np.asarray(TRUTH.sum(axis=others))


def counts(domain: Domain, codes: NDArray[np.int64], clique: Clique) -> NDArray[np.int64]:
    result = np.zeros(domain.shape(clique), dtype=np.int64)
    for row in codes[:, list(domain.axes(clique))]:
        result[tuple(row)] += 1
    return result


def dense(clique: Clique, matrices: tuple[NDArray[np.generic], ...]) -> Matrix:
    """A product on a marginal, as a matrix over all cells of the domain."""
    by_name = dict(zip(clique, matrices, strict=True))
    factors = [by_name.get(name, np.ones((1, size))) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)]
    return np.asarray(reduce(np.kron, factors, np.ones((1, 1))), dtype=np.float64)


def values_of(clique: Clique) -> tuple[NDArray[np.generic], ...]:
    return tuple(np.eye(size) for size in DOMAIN.shape(clique))


def uneven(size: int, seed: int) -> NDArray[np.int64]:
    """More rows than are needed, of sum 0 and of any norm."""
    matrix = np.random.default_rng(seed).integers(-9, 10, size=(size + 2, size))
    matrix[:, -1] -= matrix.sum(axis=1)
    return matrix


def uneven_queries(clique: Clique, weight: int, denominator: int) -> Products:
    matrices = tuple(uneven(size, place) for place, size in enumerate(DOMAIN.shape(clique)))
    return Products(DOMAIN, (Product(clique, matrices, weight),), denominator)


def queries_of_each_kind(kind: str) -> list[Products]:
    measured = parts(("a", "b", "d"))
    if kind == "one by one":
        return [residual_queries(DOMAIN, part) for part in measured]
    if kind == "uneven":
        return [uneven_queries(part, 3 + place, 2 + place) for place, part in enumerate(measured)]
    return [joint_queries(least_squared_error(DOMAIN, {("a", "b", "c", "d"): 1.0, ("d",): 9.0}))]


KINDS = ["one by one", "uneven", "joint"]
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def measured(queries: list[Products], noise: bool = True) -> list[Measurement]:
    """Each with noise of a size of its own."""
    generator = np.random.default_rng(8)
    result = []
    for place, one in enumerate(queries):
        exact = one.of_tables([table(term.clique) for term in one.terms], int(TRUTH.sum())) / one.denominator
        scale = 0.5 + place
        drawn = scale * generator.normal(size=exact.size) if noise else 0.0
        result.append(Measurement(one, exact + drawn, Noise.GAUSSIAN, scale))
    return result


def dense_inverse(measurements: list[Measurement]) -> tuple[Matrix, Matrix]:
    """Least squares over all cells from all values: estimated cells and a root of their covariance."""
    rows, values = [], []
    for one in measurements:
        assert isinstance(one.queries, Products)
        stack = [term.weight * dense(term.clique, term.matrices) for term in one.queries.terms]
        rows.append(np.concatenate(stack) / one.queries.denominator / one.stddev)
        values.append(one.values / one.stddev)
    inverse = np.linalg.pinv(np.concatenate(rows), rcond=1e-10)
    return inverse @ np.concatenate(values), inverse


@of_each_kind
def test_marginals_are_those_of_least_squares_from_all_values(kind: str) -> None:
    measurements = measured(queries_of_each_kind(kind))
    residuals, (cells, _) = Residuals(measurements), dense_inverse(measurements)
    for clique in parts(DOMAIN.names):
        expected = dense(clique, values_of(clique)) @ cells
        result = residuals.marginal(clique)
        assert result.shape == DOMAIN.shape(clique)
        assert np.allclose(result.ravel(), expected)


@of_each_kind
def test_variances_are_those_of_the_dense_covariance(kind: str) -> None:
    measurements = measured(queries_of_each_kind(kind))
    residuals, (_, root) = Residuals(measurements), dense_inverse(measurements)
    for clique in parts(DOMAIN.names):
        expected = ((dense(clique, values_of(clique)) @ root) ** 2).sum(axis=1)
        assert np.allclose(residuals.variances(clique).ravel(), expected)
    # One factor each, in the order that is asked for.
    factors = [np.random.default_rng(5).normal(size=(2, 5)), np.ones((1, 1)), prefix(3).astype(float)]
    result = residuals.variances(("d", "c", "a"), factors)
    assert result.shape == (2, 1, 3)
    asked = dense(("a", "c", "d"), tuple(factors[::-1]))
    expected = ((asked @ root) ** 2).sum(axis=1).reshape(3, 1, 2).T
    assert np.allclose(result, expected)
    sums = residuals.variances(("a", "d"), [None, np.ones((1, 5))])
    assert np.allclose(sums[:, 0], residuals.variances(("a",)))


@of_each_kind
def test_answers_of_products_and_their_error_bars(kind: str) -> None:
    measurements = measured(queries_of_each_kind(kind))
    residuals, (cells, root) = Residuals(measurements), dense_inverse(measurements)
    ranges = range_marginals(DOMAIN, [("a", "d"), (), ("b", "c")], {"a": prefix(3), "d": all_ranges(5)})
    queries = Products(DOMAIN, (*ranges.terms, Product(("b",), (np.array([[2, -1, 0, 7]]),), 3)), 4)
    asked = np.concatenate([term.weight / 4 * dense(term.clique, term.matrices) for term in queries.terms])
    answers = residuals.answers(queries)
    stddev = np.sqrt(((asked @ root) ** 2).sum(axis=1))
    assert np.allclose(answers.values, asked @ cells)
    assert np.allclose(answers.stddev, stddev)
    assert np.allclose((answers.lower + answers.upper) / 2, answers.values)
    widths = (answers.upper - answers.lower) / 2 - 1.959964 * stddev
    assert (widths > 0).all()
    assert answers.measured
    plain = residuals.answers(Marginals(DOMAIN, (("d", "a"), ("c",), ())))
    expected = [residuals.marginal(clique).ravel() for clique in (("a", "d"), ("c",), ())]
    assert np.allclose(plain.values, np.concatenate(expected))
    variances = [residuals.variances(clique).ravel() for clique in (("a", "d"), ("c",), ())]
    assert np.allclose(plain.stddev**2, np.concatenate(variances))


def test_intervals_are_widened_by_a_step_of_each_grid() -> None:
    """Of 1 count for the number of rows and of 1/9 for the residual, whose largest part in a cell is 2/3 of a step."""
    queries = [residual_queries(DOMAIN, ()), residual_queries(DOMAIN, ("a",))]
    residuals = Residuals([Measurement(one, np.zeros(one.size), Noise.GAUSSIAN, 2.0) for one in queries])
    answers = residuals.answers(Marginals(DOMAIN, (("a",),)))
    stddev = 2 * math.sqrt(1 / 9 + 2 / 3)
    assert answers.stddev == pytest.approx([stddev] * 3)
    assert answers.upper == pytest.approx([1.959964 * stddev + 1 / 3 + 2 / 3 / 3] * 3)


@of_each_kind
def test_without_noise_the_tables_are_exact(kind: str) -> None:
    residuals = Residuals(measured(queries_of_each_kind(kind), noise=False))
    for clique in parts(DOMAIN.names):
        assert np.allclose(residuals.marginal(clique), table(clique))


def test_tables_agree_on_what_they_share() -> None:
    residuals = Residuals(measured(queries_of_each_kind("one by one")))
    whole = residuals.marginal(("d", "c", "b", "a"))
    assert np.allclose(whole.sum(axis=(1, 2)), residuals.marginal(("a", "d")))
    assert np.allclose(residuals.marginal(("b", "c")).sum(), residuals.marginal(()))


def test_plans_say_the_variances_that_come_out() -> None:
    """Measured by the kernel one residual after another, each for its share of mu = 1."""
    weights = {("a", "b"): 1.0, ("b", "c", "d"): 2.0, (): 5.0}
    plan = least_squared_error(DOMAIN, weights)
    codes = np.argwhere(TRUTH >= 15)
    private = private_statistics(TinyTable(DOMAIN, codes), Budget.gdp(1))
    pairs = zip(plan.residuals, exact_shares(plan.shares), strict=True)
    residuals = Residuals([private.measure(residual_queries(DOMAIN, part), share) for part, share in pairs])
    for clique, variance in zip(plan.marginals, plan.variances.tolist(), strict=True):
        result = residuals.variances(clique)
        assert result == pytest.approx(np.full(result.shape, variance), rel=1e-5)
        errors = residuals.marginal(clique) - counts(DOMAIN, codes, clique)
        assert np.abs(errors).max() < 7 * math.sqrt(variance)


def test_no_table_over_more_attributes_than_a_marginal_has() -> None:
    """All marginals of up to two attributes out of 100, and two of three: asked, measured and reconstructed."""
    domain = Domain.of({f"x{place}": 10 for place in range(100)})
    asked = [("x3", "x50", "x99"), ("x0", "x1", "x50"), ("x7",)]
    pairs = dict.fromkeys(combinations(domain.names, 2), 1.0)
    plan = least_squared_error(domain, pairs | dict.fromkeys(asked, 2.0))
    assert len(plan.residuals) == 1 + 100 + 4950 + 2
    codes = np.random.default_rng(2).integers(0, 10, size=(200, 100))
    watched = WatchedStatistics(TinyTable(domain, codes))
    private = private_statistics(watched, Budget.gdp(10**8))
    shares = dict(zip(plan.residuals, exact_shares(plan.shares), strict=True))
    needed = dict.fromkeys(part for clique in asked for part in parts(clique))
    residuals = Residuals([private.measure(residual_queries(domain, part), shares[part]) for part in needed])
    answers = residuals.answers(Marginals(domain, tuple(asked)))
    variances = dict(zip(plan.marginals, plan.variances.tolist(), strict=True))
    marginals = Marginals(domain, tuple(asked))
    pieces = zip(asked, marginals.split(answers.values), marginals.split(answers.stddev), strict=True)
    for clique, values, result in pieces:
        stddev = math.sqrt(variances[clique] / 10**8)
        assert result == pytest.approx(np.full(result.shape, stddev), rel=1e-3)
        assert np.abs(values - counts(domain, codes, clique)).max() < 7 * stddev
    requested = {clique for request in watched.requests for clique in request.queries.cliques}  # type: ignore[union-attr]
    assert requested <= set(needed)
    assert max(map(len, requested)) == 3


def test_what_cannot_be_answered() -> None:
    one, other = residual_queries(DOMAIN, ()), residual_queries(DOMAIN, ("a",))
    result = measured([one, other])
    residuals = Residuals(result)
    for ask in (residuals.marginal, residuals.variances):
        with pytest.raises(ValueError, match=r"the residual of \('b',\) was not measured; want that of every part of"):
            ask(("a", "b"))
        with pytest.raises(ValueError, match="unknown attribute 'z'"):
            ask(("z",))
    with pytest.raises(ValueError, match=r"factors of \[2\] columns for \('a',\); want one each, of \[3\]"):
        residuals.variances(("a",), [np.ones((1, 2))])
    with pytest.raises(ValueError, match="want one each"):
        residuals.variances(("a",), [np.ones((1, 3)), None])
    with pytest.raises(ValueError, match="another domain than the residuals"):
        residuals.answers(Marginals(Domain.of({"a": 3}), ((),)))


def test_measurements_of_one_residual_are_averaged_by_their_precisions() -> None:
    """Variances 1 and 4: weights 4/5 and 1/5, and the variance of the mean is 4/5."""
    queries = residual_queries(DOMAIN, ("a",))
    values = np.arange(queries.size, dtype=np.float64)
    twice = Residuals(
        [Measurement(queries, values, Noise.GAUSSIAN, 1.0), Measurement(queries, 11 * values, Noise.GAUSSIAN, 2.0)]
    )
    once = Residuals([Measurement(queries, 3 * values, Noise.GAUSSIAN, math.sqrt(0.8))])
    for ours, expected in zip(twice.residual(("a",)), once.residual(("a",)), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_one_residual_is_measured_by_one_matrix() -> None:
    queries = residual_queries(DOMAIN, ("a",))
    (term,) = queries.terms
    doubled = Products(DOMAIN, (replace(term, matrices=tuple(2 * matrix for matrix in term.matrices)),))
    first, second = (Measurement(one, np.zeros(one.size), Noise.GAUSSIAN, 1.0) for one in (queries, doubled))
    with pytest.raises(ValueError, match=r"the residual of \('a',\) was measured by different matrices"):
        Residuals([first, second])


def test_what_is_no_residual() -> None:
    (good,) = measured([residual_queries(DOMAIN, ("a",))])
    with pytest.raises(ValueError, match="no measurements; want residuals"):
        Residuals([])
    plain = Measurement(Marginals(DOMAIN, (("a",),)), np.zeros(3), Noise.GAUSSIAN, 1.0)
    with pytest.raises(ValueError, match="Marginals with discrete_gaussian noise; want residuals as Products"):
        Residuals([plain])
    with pytest.raises(ValueError, match="discrete_laplace noise; want residuals as Products with Gaussian noise"):
        Residuals([Measurement(good.queries, good.values, Noise.LAPLACE, 1.0)])
    with pytest.raises(ValueError, match="different domains; want one"):
        Residuals([good, measured_elsewhere()])
    for matrix, message in (
        (np.eye(3, dtype=np.int64), "has a row of sum other than 0; want rows of sum 0"),
        (np.array([[1, -1, 0]]), "does not span it; want 2 independent rows"),
        (np.array([[1, -1, 0], [2, -2, 0]]), "does not span it; want 2 independent rows"),
    ):
        queries = Products(DOMAIN, (Product(("a",), (matrix,)),))
        with pytest.raises(ValueError, match=f"a residual of 'a' {message}"):
            Residuals([Measurement(queries, np.zeros(queries.size), Noise.GAUSSIAN, 1.0)])


def measured_elsewhere() -> Measurement:
    queries = residual_queries(Domain.of({"q": 2}), ())
    return Measurement(queries, np.zeros(1), Noise.GAUSSIAN, 1.0)
