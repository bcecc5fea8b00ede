"""Ranges and prefixes under Gaussian noise by residuals: the error that the plan tells, in one call to the kernel."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.api import Release, silent
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.hdmm.products import MeasuredProductResiduals
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, linear

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 2, "d": 4})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 4)))
CLIQUES = [("a", "b"), ("b", "c", "d"), ("a",), ()]
MATRICES = {"a": prefix(6), "b": all_ranges(5)}
WORKLOAD = Workload(range_marginals(DOMAIN, CLIQUES, MATRICES), np.array([1.0, 3.0, 0.5, 2.0]))
GAUSSIAN = pytest.mark.parametrize("budget", [Budget.zcdp(1), Budget.gdp(1)], ids=["zcdp", "gdp"])


def of(budget: Budget, workload: Workload = WORKLOAD, **options: object) -> MeasuredProductResiduals:
    terms = private_statistics(TABLE, budget, **options).terms  # type: ignore[arg-type]
    found = MeasuredProductResiduals.of(terms, workload)
    assert found is not None
    return found


def released(budget: Budget, workload: Workload = WORKLOAD, **options: object) -> Release:
    private = private_statistics(TABLE, budget, **options)  # type: ignore[arg-type]
    return of(budget, workload).run(private, silent)


@pytest.mark.smoke(1)
@GAUSSIAN
@pytest.mark.parametrize("replaced", [False, True])
def test_the_error_is_the_predicted_one_and_intervals_hold(budget: Budget, replaced: bool) -> None:
    options: dict[str, object] = {"neighbours": REPLACE, "units": 50} if replaced else {}
    exact = exact_answers(TABLE, WORKLOAD.queries)
    runs = [released(budget, **options).answers for _ in range(80)]
    squared = np.array([((run.values - exact) ** 2).sum() for run in runs])
    predicted = float((runs[0].stddev ** 2).sum())
    deviation = squared.std() / math.sqrt(len(runs))
    assert abs(squared.mean() - predicted) < 4.5 * deviation < 0.3 * predicted
    absolute = np.array([np.abs(run.values - exact).mean() for run in runs])
    terms = private_statistics(TABLE, budget, **options).terms  # type: ignore[arg-type]
    plan = of(budget).release_plan(terms)
    assert plan.predicted_error is not None
    assert abs(absolute.mean() - plan.predicted_error) < 4.5 * absolute.std() / math.sqrt(len(runs))
    assert 0.93 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.97
    assert len(plan.events) == 1
    assert (plan.notes == ()) == replaced


@GAUSSIAN
def test_one_call_and_the_weighted_error_of_its_answers(budget: Budget) -> None:
    terms, journal = private_statistics(TABLE, budget).terms, MemoryJournal()
    release = released(budget, journal=journal)
    assert len(journal.answers) == 1
    (measured,) = release.measurements
    plan = of(budget).release_plan(terms)
    assert [step.calls for step in plan.steps] == [1]
    assert measured.stddev == pytest.approx(plan.steps[0].stddev)
    assert measured.stddev == pytest.approx(math.sqrt(0.5) if budget.currency == "rho" else 1.0, rel=0.01)
    weights = np.repeat(WORKLOAD.weights, [term.size for term in WORKLOAD.queries.terms])  # type: ignore[union-attr]
    expected = float(((weights * release.answers.stddev) ** 2).sum())
    assert of(budget).weighted_error(terms) == pytest.approx(expected)
    assert "above the minimum weighted error of linear queries with Gaussian noise" in plan.notes[0]
    apart = Hdmm(strategy="parts").run(private_statistics(TABLE, budget), WORKLOAD, generator=np.random.default_rng(0))
    assert expected < 0.85 * float(((weights * apart.answers.stddev) ** 2).sum())


def test_answers_agree_on_what_they_share() -> None:
    queries = range_marginals(DOMAIN, [("a", "b"), ("b", "c")], {"a": prefix(6)})
    values = released(Budget.zcdp(1), linear(queries)).answers.values
    first, second = values[:30].reshape(6, 5), values[30:].reshape(5, 2)
    np.testing.assert_allclose(first[-1], second.sum(axis=1), atol=1e-9)


@GAUSSIAN
def test_without_noise_the_answers_are_exact(budget: Budget) -> None:
    answers = released(Budget(budget.currency, budget.amount * 10**16)).answers
    np.testing.assert_allclose(answers.values, exact_answers(TABLE, WORKLOAD.queries), atol=1e-4)


def test_weights_of_any_size_are_relative() -> None:
    once = of(Budget.zcdp(1))
    large = of(Budget.zcdp(1), Workload(WORKLOAD.queries, 1e150 * WORKLOAD.weights))
    assert large.strategy.queries.digest() == once.strategy.queries.digest()
    far = Workload(WORKLOAD.queries, np.array([1.0, 1e-300, 1.0, 1.0]))
    assert np.isfinite(released(Budget.zcdp(1), far).answers.values).all()


def test_the_choice_is_kept_for_the_run() -> None:
    assert of(Budget.zcdp(1)).strategy is of(Budget.gdp(2)).strategy


def test_what_has_no_such_residuals() -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1)).terms
    mixed = (Product(("a",), (prefix(6),)), Product(("a", "c"), (identity(6), identity(2))))
    assert MeasuredProductResiduals.of(terms, linear(Products(DOMAIN, mixed))) is None
    assert MeasuredProductResiduals.of(terms, all_k_way(DOMAIN, 2)) is None
    assert MeasuredProductResiduals.of(private_statistics(TABLE, Budget.pure(1)).terms, WORKLOAD) is None
    wide = Domain.of({"w": 1025})
    rows = np.zeros((1, 1025), dtype=np.int64)
    rows[0, :9] = 1
    assert MeasuredProductResiduals.of(terms, linear(Products(wide, (Product(("w",), (rows,)),)))) is None


def test_pairs_of_forty_attributes_have_a_plan() -> None:
    domain = Domain.of({f"x{place}": 3 for place in range(40)})
    pairs = list(combinations(domain.names, 2))
    workload = linear(range_marginals(domain, pairs, {name: prefix(3) for name in domain.names[:20]}))
    terms = private_statistics(TinyTable(domain, np.zeros((3, 40), dtype=np.int64)), Budget.gdp(1)).terms
    found = MeasuredProductResiduals.of(terms, workload)
    assert found is not None
    plan, parts = found.release_plan(terms), Hdmm(strategy="parts").plan(terms, workload)
    assert plan.predicted_error is not None
    assert parts.predicted_error is not None
    assert plan.predicted_error < 0.65 * parts.predicted_error
