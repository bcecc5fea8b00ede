"""Unions of products under Gaussian noise at the certified optimum: the error that the plan tells, in one call."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.api import Release, silent
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.hdmm.symmetric import MeasuredSymmetric
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity, prefix
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, cell_weights, linear
from tests.benchmarks.matrix import sf1
from tests.unit.dpcore.strategies.small_unions import SIGMA

DOMAIN = Domain.of({"x": 7, "a": 3, "b": 4, "y": 9, "c": 5})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (60, 5)))
FIRST, PAIR = np.array([[1, 0, 0]]), np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
QUERIES = Products(
    DOMAIN,
    (
        Product(("a", "b", "c"), (identity(3), PAIR, np.array([[0, 0, 1, 1, 1]]))),
        Product(("b", "c"), (identity(4), identity(5))),
        Product(("a",), (FIRST,)),
        Product((), ()),
    ),
)
WORKLOAD = Workload(QUERIES, np.array([1.0, 3.0, 0.5, 2.0]))
GAUSSIAN = pytest.mark.parametrize("budget", [Budget.zcdp(1), Budget.gdp(1)], ids=["zcdp", "gdp"])


def of(budget: Budget, workload: Workload = WORKLOAD, **options: object) -> MeasuredSymmetric:
    terms = private_statistics(TABLE, budget, **options).terms  # type: ignore[arg-type]
    found = MeasuredSymmetric.of(terms, workload)
    assert found is not None
    return found


def released(budget: Budget, workload: Workload = WORKLOAD, **options: object) -> Release:
    private = private_statistics(TABLE, budget, **options)  # type: ignore[arg-type]
    return of(budget, workload, **options).run(private, silent)


@pytest.mark.smoke(1)
@GAUSSIAN
@pytest.mark.parametrize("replaced", [False, True])
def test_answers_are_unbiased_with_the_variances_that_they_tell(budget: Budget, replaced: bool) -> None:
    options: dict[str, object] = {"neighbours": REPLACE, "units": 60} if replaced else {}
    exact = exact_answers(TABLE, QUERIES)
    runs = [released(budget, **options).answers for _ in range(300)]
    errors = np.array([run.values - exact for run in runs])
    stddev = runs[0].stddev
    assert np.abs(errors.mean(axis=0) / stddev).max() < 4.5 / math.sqrt(len(runs))
    # The variance of a sample of 300 normals is off by (2 / 299)^(1/2) of itself.
    assert np.abs(errors.var(axis=0) / stddev**2 - 1).max() < 5 * math.sqrt(2 / 299)
    assert 0.93 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.97
    terms = private_statistics(TABLE, budget, **options).terms  # type: ignore[arg-type]
    plan = of(budget, **options).release_plan(terms)
    assert plan.predicted_error == pytest.approx(math.sqrt(2 / math.pi) * stddev.mean(), rel=1e-3)
    assert (plan.notes == ()) == replaced


@GAUSSIAN
def test_one_call_and_the_weighted_error_of_its_answers(budget: Budget) -> None:
    private, journal = private_statistics(TABLE, budget), MemoryJournal()
    release = released(budget, journal=journal)
    assert len(journal.answers) == 1
    (measured,) = release.measurements
    plan = of(budget).release_plan(private.terms)
    assert [(step.calls, step.share) for step in plan.steps] == [(1, 1.0)]
    assert measured.stddev == pytest.approx(plan.steps[0].stddev, rel=1e-12)
    of(budget).run(private, silent)
    assert [charge.amount for charge in private.charges] == [budget.amount]
    assert [event.charged for event in plan.events] == [budget.amount]
    expected = float(((cell_weights(WORKLOAD) * release.answers.stddev) ** 2).sum())
    assert of(budget).weighted_error(private.terms) == pytest.approx(expected)
    assert "above the minimum weighted error of linear queries with Gaussian noise" in plan.notes[0]
    apart = Hdmm(strategy="parts").run(private_statistics(TABLE, budget), WORKLOAD, generator=np.random.default_rng(0))
    assert expected < 0.85 * float(((cell_weights(WORKLOAD) * apart.answers.stddev) ** 2).sum())


def test_answers_agree_on_what_they_share() -> None:
    values = released(Budget.gdp(1)).answers.values
    assert values[6:26].sum() == pytest.approx(values[27])


@GAUSSIAN
def test_without_noise_the_answers_are_exact(budget: Budget) -> None:
    answers = released(Budget(budget.currency, budget.amount * 10**16)).answers
    np.testing.assert_allclose(answers.values, exact_answers(TABLE, QUERIES), atol=1e-4)


def test_weights_of_any_size_are_relative() -> None:
    once = of(Budget.zcdp(1))
    large = of(Budget.zcdp(1), Workload(QUERIES, 1e150 * WORKLOAD.weights))
    assert large.queries.digest() == once.queries.digest()


def test_the_choice_is_kept_for_the_run() -> None:
    assert of(Budget.zcdp(1)).selected is of(Budget.gdp(2)).selected


def test_what_is_refused() -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1)).terms
    assert MeasuredSymmetric.of(private_statistics(TABLE, Budget.pure(1)).terms, WORKLOAD) is None
    assert MeasuredSymmetric.of(terms, all_k_way(DOMAIN, 2)) is None
    assert MeasuredSymmetric.of(terms, linear(Products(DOMAIN, QUERIES.terms[:1]))) is None
    assert MeasuredSymmetric.of(terms, linear(Products(DOMAIN, QUERIES.terms[-1:] * 2))) is None
    tiny = private_statistics(TABLE, Budget.gdp(Fraction(1, 10**16))).terms
    assert MeasuredSymmetric.of(tiny, WORKLOAD) is None  # Noise beyond 2^40 steps.


def test_large_domains_and_values_that_differ_are_refused() -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1)).terms
    wide = Domain.of({f"a{place}": 130 for place in range(4)})
    asked = [Product((name,), (identity(130),)) for name in wide.names]
    assert MeasuredSymmetric.of(terms, linear(Products(wide, tuple(asked)))) is None
    long = Products(Domain.of({"a": 1025}), (Product(("a",), (identity(1025),)),) * 2)
    assert MeasuredSymmetric.of(terms, linear(long)) is None
    ordered = Domain.of({"a": 60, "b": 60})
    both = Product(ordered.names, (prefix(60), prefix(60)))
    assert MeasuredSymmetric.of(terms, linear(Products(ordered, (both, Product(("a",), (prefix(60),)))))) is None


def test_the_census_at_its_optimum() -> None:
    """Thesis, Table 3.5: 9.80 for SF1; the optimum is 8.0445. SIGMA is the noise of this budget in one count."""
    workload = linear(sf1.sf1())
    table = TinyTable(sf1.sf1().domain, np.zeros((1, 4), dtype=np.int64))
    terms = private_statistics(table, Budget.gdp(Fraction(1 / SIGMA**2))).terms
    found = MeasuredSymmetric.of(terms, workload)
    assert found is not None
    assert math.sqrt(found.weighted_error(terms) / sf1.ANSWERS) == pytest.approx(8.0445, abs=3e-4)
    assert found.queries.largest <= 1 << 20
    assert found.selected.norms.shape == (sf1.ANSWERS,)
    plan = found.release_plan(terms)
    assert "at most 0.00% above" in plan.notes[0]
