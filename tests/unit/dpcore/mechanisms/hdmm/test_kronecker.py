"""Unions of products under Laplace noise by one product: the error that the plan tells, in one call to the kernel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.api import Release, silent
from dpcore.mechanisms.hdmm.kronecker import MeasuredKronecker
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity, prefix
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, cell_weights, linear
from tests.benchmarks.matrix import sf1

DOMAIN = Domain.of({"x": 7, "a": 3, "b": 32, "y": 9, "c": 5})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (60, 5)))
QUERIES = Products(
    DOMAIN,
    (
        Product(("a", "b", "c"), (identity(3), prefix(32), np.array([[0, 0, 1, 1, 1]]))),
        Product(("b", "c"), (prefix(32), identity(5))),
        Product((), ()),
    ),
)
WORKLOAD = Workload(QUERIES, np.array([1.0, 3.0, 0.5]))
BUDGET = Budget.pure(Fraction(1, 8))


def of(workload: Workload = WORKLOAD, budget: Budget = BUDGET) -> MeasuredKronecker:
    found = MeasuredKronecker.of(private_statistics(TABLE, budget).terms, workload)
    assert found is not None
    return found


def released(budget: Budget = BUDGET, **options: object) -> Release:
    return of().run(private_statistics(TABLE, budget, **options), silent)  # type: ignore[arg-type]


@pytest.mark.smoke(1)
@pytest.mark.parametrize("replaced", [False, True])
def test_answers_are_unbiased_with_the_variances_that_they_tell(replaced: bool) -> None:
    options: dict[str, object] = {"neighbours": REPLACE, "units": 60} if replaced else {}
    exact = exact_answers(TABLE, QUERIES)
    runs = [released(**options).answers for _ in range(300)]
    errors = np.array([run.values - exact for run in runs])
    stddev = runs[0].stddev
    assert np.abs(errors.mean(axis=0) / stddev).max() < 4.5 / math.sqrt(len(runs))
    # The variance of 300 Laplace variables is off by (5 / 300)^(1/2) of itself.
    assert np.abs(errors.var(axis=0) / stddev**2 - 1).max() < 6 * math.sqrt(5 / 300)
    assert 0.94 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.98
    terms = private_statistics(TABLE, BUDGET, **options).terms  # type: ignore[arg-type]
    predicted = of().release_plan(terms).predicted_error
    assert predicted is not None
    assert np.abs(errors).mean() < 1.05 * predicted < 1.2 * np.abs(errors).mean()


def test_one_call_and_the_weighted_error_of_its_answers() -> None:
    private, journal = private_statistics(TABLE, BUDGET), MemoryJournal()
    release = released(journal=journal)
    assert len(journal.answers) == 1
    (measured,) = release.measurements
    plan = of().release_plan(private.terms)
    assert [(step.calls, step.share) for step in plan.steps] == [(1, 1.0)]
    assert measured.stddev == pytest.approx(plan.steps[0].stddev, rel=1e-12)
    of().run(private, silent)
    assert [charge.amount for charge in private.charges] == [BUDGET.amount]
    assert [event.charged for event in plan.events] == [BUDGET.amount]
    expected = float(((cell_weights(WORKLOAD) * release.answers.stddev) ** 2).sum())
    assert of().weighted_error(private.terms) == pytest.approx(expected)


def test_without_noise_the_answers_are_exact() -> None:
    answers = released(Budget.pure(10**9)).answers
    np.testing.assert_allclose(answers.values, exact_answers(TABLE, QUERIES), atol=1e-4)


def test_it_is_no_table_of_codes() -> None:
    (term,) = of().strategy.queries.terms
    assert term.clique == ("a", "b", "c")
    assert term.shape[1] > 32


def test_the_choice_is_kept_for_the_run() -> None:
    assert of().strategy is of(Workload(QUERIES, 2 * WORKLOAD.weights), Budget.pure(2)).strategy


def test_what_is_refused() -> None:
    terms = private_statistics(TABLE, BUDGET).terms
    assert MeasuredKronecker.of(private_statistics(TABLE, Budget.gdp(1)).terms, WORKLOAD) is None
    assert MeasuredKronecker.of(terms, all_k_way(DOMAIN, 2)) is None
    assert MeasuredKronecker.of(terms, linear(Products(DOMAIN, QUERIES.terms[:1]))) is None
    assert MeasuredKronecker.of(terms, linear(Products(DOMAIN, QUERIES.terms[-1:] * 2))) is None
    assert MeasuredKronecker.of(private_statistics(TABLE, Budget.pure(Fraction(1, 10**13))).terms, WORKLOAD) is None
    wide = Domain.of({f"a{place}": 130 for place in range(4)})
    asked = tuple(Product((name,), (identity(130),)) for name in wide.names)
    assert MeasuredKronecker.of(terms, linear(Products(wide, asked))) is None
    long = Products(Domain.of({"a": 257}), (Product(("a",), (identity(257),)),) * 2)
    assert MeasuredKronecker.of(terms, linear(long)) is None


def test_the_census_below_the_published_error() -> None:
    """Thesis, Table 3.4: 7.30 for SF1, here with discrete noise."""
    workload = linear(sf1.sf1())
    terms = private_statistics(TinyTable(sf1.sf1().domain, np.zeros((1, 4), dtype=np.int64)), Budget.pure(1)).terms
    found = MeasuredKronecker.of(terms, workload)
    assert found is not None
    assert 7 < math.sqrt(found.weighted_error(terms) / sf1.ANSWERS) < 7.31
