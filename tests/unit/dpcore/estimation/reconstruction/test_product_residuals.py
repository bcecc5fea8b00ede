"""Answers from residuals of products, and their variances, against dense least squares and dense covariances."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.reconstruction.product_residuals import ProductResiduals
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.strategies.residual_planning.product_residuals import product_residuals
from dpcore.testing.doubles import WatchedStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 1, "d": 5})
TRUTH = np.random.default_rng(1).integers(0, 30, size=DOMAIN.sizes)
WORKLOAD = range_marginals(DOMAIN, [("a", "b", "c"), ("b", "d"), ("a",), ()], {"a": prefix(4), "d": all_ranges(5)})
SCALE = 1e9  # Of integer answers: some counts in an answer of the workload.
Real = NDArray[np.float64]


def table(clique: Clique) -> NDArray[np.int64]:
    return np.asarray(TRUTH.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)))


def dense(clique: Clique, matrices: tuple[NDArray[np.generic], ...]) -> Real:
    """A product on a marginal, as a matrix over all cells of the domain."""
    named = dict(zip(clique, matrices, strict=True))
    factors = [named.get(name, np.ones((1, size))) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)]
    return np.asarray(reduce(np.kron, factors, np.ones((1, 1))), dtype=np.float64)


def stacked(queries: Products) -> Real:
    rows = [term.weight * dense(term.clique, term.matrices) for term in queries.terms]
    return np.concatenate(rows) / queries.denominator


def chosen(denominator: int = 1) -> Products:
    plan = product_residuals(WORKLOAD, np.array([1.0, 3.0, 0.5, 2.0]))
    return Products(DOMAIN, plan.queries.terms, denominator)


def measured(queries: Products, noise: float = 1.0, seed: int = 8) -> Measurement:
    exact = stacked(queries) @ TRUTH.ravel()
    drawn = noise * SCALE * np.random.default_rng(seed).normal(size=exact.size)
    return Measurement(queries, exact + drawn / queries.denominator, Noise.GAUSSIAN, SCALE / queries.denominator)


def later() -> Products:
    """What nobody planned for, on parts of the workload's cliques."""
    signed = Product(("a", "b"), (np.array([[2, -1, 0, 7], [0, 0, 1, 1]]), np.array([[1, 1, 0]])), 3)
    ranges = range_marginals(DOMAIN, [("b",), ("d",), ("a", "c")], {"a": all_ranges(4), "b": prefix(3)})
    return Products(DOMAIN, (signed, *ranges.terms), 4)


@pytest.mark.parametrize("denominator", [1, 12])
@pytest.mark.parametrize("queries", [WORKLOAD, later()], ids=["workload", "later"])
def test_answers_are_those_of_least_squares_from_all_values(queries: Products, denominator: int) -> None:
    measurement = measured(chosen(denominator))
    assert isinstance(measurement.queries, Products)
    rows, asked = stacked(measurement.queries), stacked(queries)
    reconstruction = asked @ np.linalg.pinv(rows, rcond=1e-10)
    residuals = ProductResiduals(measurement)
    answers = residuals.answers(queries)
    assert np.allclose(answers.values, reconstruction @ measurement.values)
    stddev = measurement.stddev * np.linalg.norm(reconstruction, axis=1)
    assert np.allclose(answers.stddev, stddev)
    assert np.array_equal(residuals.stddev(queries), answers.stddev)
    assert np.allclose((answers.lower + answers.upper) / 2, answers.values)
    assert np.allclose((answers.upper - answers.lower) / 2, 1.959964 * stddev)
    assert answers.measured


def test_the_plan_tells_the_variances() -> None:
    weights = np.array([1.0, 3.0, 0.5, 2.0])
    plan = product_residuals(WORKLOAD, weights)
    none = Measurement(plan.queries, np.zeros(plan.queries.size), Noise.GAUSSIAN, 3.0)
    stddev = ProductResiduals(none).stddev(WORKLOAD)
    counted = np.repeat(weights, [term.size for term in WORKLOAD.terms])
    assert float(counted @ stddev**2) == pytest.approx(9 * plan.error)


def test_marginals_and_variances_of_factors_in_any_order() -> None:
    measurement = measured(chosen())
    assert isinstance(measurement.queries, Products)
    inverse = np.linalg.pinv(stacked(measurement.queries), rcond=1e-10)
    residuals, cells = ProductResiduals(measurement), inverse @ measurement.values
    for clique in [(), ("a",), ("a", "b"), ("b", "d"), ("a", "b", "c"), ("c",)]:
        codes = dense(clique, tuple(np.eye(size) for size in DOMAIN.shape(clique)))
        result = residuals.marginal(clique)
        assert result.shape == DOMAIN.shape(clique)
        assert np.allclose(result.ravel(), codes @ cells)
        assert np.allclose(residuals.marginal(clique[::-1]), result)
        assert np.allclose(residuals.variances(clique).ravel(), SCALE**2 * ((codes @ inverse) ** 2).sum(axis=1))
    factors = [np.random.default_rng(5).normal(size=(2, 3)), prefix(4).astype(np.float64)]
    result = residuals.variances(("b", "a"), factors)
    expected = SCALE**2 * ((dense(("a", "b"), tuple(factors[::-1])) @ inverse) ** 2).sum(axis=1)
    assert np.allclose(result, expected.reshape(4, 2).T)
    plain = residuals.answers(Marginals(DOMAIN, (("b", "a"), ("c",), ())))
    expected = np.concatenate([residuals.marginal(("a", "b")).ravel(), residuals.marginal(("c",)), [cells.sum()]])
    assert np.allclose(plain.values, expected)


def test_without_noise_the_tables_are_exact_and_tables_agree() -> None:
    exact, noisy = ProductResiduals(measured(chosen(), 0.0)), ProductResiduals(measured(chosen()))
    for clique in (("a", "b", "c"), ("b", "d"), ("b",), ()):
        assert np.allclose(exact.marginal(clique), table(clique))
    assert np.allclose(noisy.marginal(("a", "b")).sum(axis=0), noisy.marginal(("b", "d")).sum(axis=1))
    assert np.allclose(noisy.marginal(("b", "d")).sum(), noisy.marginal(()))


def test_they_are_unbiased_with_the_spread_that_they_tell() -> None:
    queries = chosen()
    runs = [ProductResiduals(measured(queries, seed=seed)).answers(WORKLOAD) for seed in range(200)]
    errors = np.array([run.values for run in runs]) - stacked(WORKLOAD) @ TRUTH.ravel()
    stddev = runs[0].stddev
    assert np.abs(errors.mean(axis=0) / stddev).max() < 5 / math.sqrt(200)
    ratios = (errors**2).mean(axis=0) / stddev**2
    assert np.abs(ratios - 1).max() < 5 * math.sqrt(2 / 200)


def test_intervals_are_widened_by_a_step_of_each_grid() -> None:
    """Of 1/2 of a count for the number of rows, and half a step of the residual, which moves a value by 1/4."""
    queries = Products(DOMAIN, (Product((), (), 2), Product(("b",), (np.array([[1, -1, 0], [1, 1, -2]]),))))
    answers = ProductResiduals(Measurement(queries, np.zeros(3), Noise.GAUSSIAN, 2.0)).answers(
        Products(DOMAIN, (Product(("b",), (np.array([[0, 0, 1]]),)),))
    )
    stddev = 2 * math.sqrt((1 / 6) ** 2 + (1 / 3) ** 2)
    assert answers.stddev == pytest.approx([stddev])
    assert answers.upper == pytest.approx([1.959964 * stddev + 1 / 6 + 1 / 3])


def test_no_table_over_more_attributes_than_a_clique_has() -> None:
    """Prefixes and values of up to two of 60 attributes, out of the kernel."""
    domain = Domain.of({f"x{place}": 6 for place in range(60)})
    chain = [(f"x{place}", f"x{place + 1}") for place in range(59)]
    queries = range_marginals(domain, chain, {f"x{place}": prefix(6) for place in range(0, 60, 3)})
    codes = np.random.default_rng(2).integers(0, 6, size=(100, 60))
    watched = WatchedStatistics(TinyTable(domain, codes))
    plan = product_residuals(queries, np.ones(59))
    measurement = private_statistics(watched, Budget.gdp(10**8)).measure(plan.queries, Fraction(1))
    answers = ProductResiduals(measurement).answers(range_marginals(domain, [("x0", "x1")], {"x0": prefix(6)}))
    counts = np.zeros((6, 6))
    np.add.at(counts, (codes[:, 0], codes[:, 1]), 1)
    assert np.abs(answers.values - counts.cumsum(axis=0).ravel()).max() < 7 * answers.stddev.max() < 0.1
    asked = {clique for request in watched.requests for clique in request.queries.cliques}  # type: ignore[union-attr]
    assert max(map(len, asked)) == 2


def test_attributes_without_a_residual_are_asked_for_what_their_values_have_alike() -> None:
    queries = range_marginals(
        DOMAIN, [("a", "b"), ("b",), ("a",)], {"a": np.ones((2, 4), dtype=np.int64), "b": prefix(3)}
    )
    measurement = measured(product_residuals(queries, np.ones(3)).queries)
    residuals = ProductResiduals(measurement)
    answers = residuals.answers(queries)
    single = residuals.answers(queries_of(queries, 1))
    assert np.allclose(answers.values[:6].reshape(2, 3), single.values)
    assert np.allclose(answers.stddev[:6].reshape(2, 3), single.stddev)
    assert np.allclose(answers.values[-2:], residuals.marginal(()))
    with pytest.raises(ValueError, match=r"the residual of \('a',\) was not measured"):
        residuals.marginal(("a",))
    with pytest.raises(ValueError, match=r"the residual of \('a',\) was not measured"):
        residuals.answers(range_marginals(DOMAIN, [("a",)], {"a": prefix(4)}))


def test_what_cannot_be_answered() -> None:
    residuals = ProductResiduals(measured(chosen()))
    for ask in (residuals.marginal, residuals.variances):
        with pytest.raises(ValueError, match=r"the residual of \('a', 'd'\) was not measured; want that of every part"):
            ask(("a", "d"))
        with pytest.raises(ValueError, match="unknown attribute 'z'"):
            ask(("z",))
    with pytest.raises(ValueError, match=r"factors of \[2\] columns for \('a',\); want one each, of \[4\]"):
        residuals.variances(("a",), [np.ones((1, 2))])
    with pytest.raises(ValueError, match="want one each"):
        residuals.variances(("a",), [np.ones((1, 4)), None])
    with pytest.raises(ValueError, match="another domain than the residuals"):
        residuals.answers(Marginals(Domain.of({"a": 4}), ((),)))


def test_what_is_no_residual() -> None:
    terms, size = chosen().terms, chosen().size
    with pytest.raises(ValueError, match="Marginals with discrete_gaussian noise; want residuals as Products"):
        ProductResiduals(Measurement(Marginals(DOMAIN, (("a",),)), np.zeros(4), Noise.GAUSSIAN, 1.0))
    with pytest.raises(ValueError, match="discrete_laplace noise; want residuals as Products with Gaussian noise"):
        ProductResiduals(Measurement(chosen(), np.zeros(size), Noise.LAPLACE, 1.0))
    basis = np.array([[1, -1, 0], [1, 1, -2]])
    for queries, message in (
        ((*terms, terms[-1]), r"was measured twice; want each one once"),
        ((Product(("b",), (prefix(3),)),), "a residual of 'b': queries that depend on the total"),
        ((Product(("b",), (basis[:1],)),), "a residual of 'b': 1 queries of the residual of 3 values; want 2"),
        (
            (Product(("b",), (basis,)), Product(("b", "c"), (3 * basis, np.array([[1]])))),
            "residuals of 'b' by two matrices",
        ),
    ):
        bad = Products(DOMAIN, queries)
        with pytest.raises(ValueError, match=message):
            ProductResiduals(Measurement(bad, np.zeros(bad.size), Noise.GAUSSIAN, 1.0))


def queries_of(queries: Products, place: int) -> Products:
    return Products(queries.domain, (queries.terms[place],))
