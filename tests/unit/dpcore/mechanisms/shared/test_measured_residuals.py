"""HDMM on marginals under Gaussian noise: residuals, with the error that the plan tells and less than all else."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.kernel.product_sensitivity import largest_squared_l2
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import prefix
from dpcore.strategies.residual_planning.bases import joint_queries
from dpcore.strategies.residual_planning.planning import least_squared_error
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, explicit, linear

DOMAIN = Domain.of({"a": 6, "b": 5, "c": 2, "d": 4})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 4)))
ASKED_IN_TWO_WAYS = Products(
    DOMAIN, (Product(("a",), (prefix(6),)), Product(("a", "c"), (np.eye(6, dtype=np.int64), np.eye(2, dtype=np.int64))))
)
WORKLOAD = explicit(DOMAIN, {("a", "b"): 1.0, ("b", "c", "d"): 3.0, ("a",): 0.5, ("a", "d"): 2.0})
GENERATOR = np.random.default_rng(0)
GAUSSIAN = pytest.mark.parametrize("budget", [Budget.zcdp(1), Budget.gdp(1)], ids=["zcdp", "gdp"])


def released(budget: Budget, workload: Workload = WORKLOAD, mechanism: Hdmm | None = None, **options: Any) -> Any:
    private = private_statistics(TABLE, budget, **options)
    return (mechanism or Hdmm()).run(private, workload, generator=GENERATOR)


@pytest.mark.smoke(1)
@GAUSSIAN
@pytest.mark.parametrize("replaced", [False, True])
def test_the_error_is_the_predicted_one_and_intervals_hold(budget: Budget, replaced: bool) -> None:
    options = {"neighbours": REPLACE, "units": 50} if replaced else {}
    exact, asked = exact_answers(TABLE, WORKLOAD.queries), Hdmm(strategy="residuals")
    runs = [released(budget, mechanism=asked, **options).answers for _ in range(150)]
    squared = np.array([((run.values - exact) ** 2).sum() for run in runs])
    predicted = float((runs[0].stddev ** 2).sum())
    deviation = squared.std() / math.sqrt(len(runs))
    assert abs(squared.mean() - predicted) < 4.5 * deviation < 0.25 * predicted
    absolute = np.array([np.abs(run.values - exact).mean() for run in runs])
    plan = asked.plan(private_statistics(TABLE, budget, **options).terms, WORKLOAD)
    assert plan.predicted_error is not None
    assert abs(absolute.mean() - plan.predicted_error) < 4.5 * absolute.std() / math.sqrt(len(runs))
    assert 0.935 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.965
    assert len(plan.events) == 1
    assert (plan.notes == ()) == replaced


@GAUSSIAN
def test_they_win_by_themselves_and_are_what_the_weighted_error_says(budget: Budget) -> None:
    terms = private_statistics(TABLE, budget).terms
    best, parts = Hdmm().plan(terms, WORKLOAD), Hdmm(strategy="parts").plan(terms, WORKLOAD)
    assert [step.calls for step in best.steps] == [1]
    assert len(parts.steps) == 4
    release = released(budget)
    (measured,) = release.measurements
    assert measured.stddev == best.steps[0].stddev
    found = MeasuredResiduals.of(terms, WORKLOAD)
    assert found is not None
    sizes = WORKLOAD.queries.sizes  # type: ignore[union-attr]
    weights = np.repeat(WORKLOAD.weights, sizes)
    expected = float(((weights * release.answers.stddev) ** 2).sum())
    assert found.weighted_error(terms) == pytest.approx(expected, rel=1e-3)
    apart = released(budget, mechanism=Hdmm(strategy="parts")).answers
    assert expected < 0.85 * float(((weights * apart.stddev) ** 2).sum())


def test_answers_agree_on_what_they_share() -> None:
    queries = WORKLOAD.queries
    assert isinstance(queries, Marginals)
    tables = dict(zip(queries.cliques, queries.split(released(Budget.zcdp(1)).answers.values), strict=True))
    np.testing.assert_allclose(tables["a", "b"].sum(axis=1), tables["a",].ravel(), atol=1e-9)
    np.testing.assert_allclose(tables["a", "b"].sum(axis=0), tables["b", "c", "d"].sum(axis=(1, 2)), atol=1e-9)
    np.testing.assert_allclose(tables["a", "d"].sum(axis=0), tables["b", "c", "d"].sum(axis=(0, 1)), atol=1e-9)


@GAUSSIAN
def test_without_noise_the_answers_are_exact(budget: Budget) -> None:
    answers = released(Budget(budget.currency, budget.amount * 10**18), mechanism=Hdmm(strategy="residuals")).answers
    np.testing.assert_allclose(answers.values, exact_answers(TABLE, WORKLOAD.queries), atol=1e-4)


def test_a_repeated_marginal_is_measured_once_and_answered_twice() -> None:
    queries = Marginals(DOMAIN, (("a", "b"), ("a", "b"), ("c",)))
    workload = Workload(queries, np.array([1.0, 2.0, 1.0]))
    journal = MemoryJournal()
    answers = released(Budget.zcdp(1), workload, journal=journal).answers
    assert len(journal.answers) == 1
    np.testing.assert_array_equal(answers.values[:30], answers.values[30:60])


def test_a_gap_of_many_orders_in_weights_is_no_error() -> None:
    far = explicit(DOMAIN, {("a", "b"): 1.0, ("c",): 1e-200})
    assert np.isfinite(released(Budget.zcdp(1), far).answers.values).all()


@pytest.mark.parametrize(
    ("mechanism", "budget", "workload", "message"),
    [
        (Hdmm(strategy="residuals"), Budget.pure(1), WORKLOAD, "residuals is for marginals .* Gaussian noise"),
        (
            Hdmm("graphical", "residuals"),
            Budget.zcdp(1),
            WORKLOAD,
            "strategy residuals, .* with reconstruction graphical; want strategy: best",
        ),
        (
            Hdmm(strategy="residuals"),
            Budget.zcdp(1),
            linear(ASKED_IN_TWO_WAYS),
            "residuals is for marginals",
        ),
    ],
)
def test_what_has_no_residuals_is_refused(mechanism: Hdmm, budget: Budget, workload: Workload, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(private_statistics(TABLE, budget).terms, workload)


def test_residuals_of_a_hundred_attributes_have_a_sensitivity() -> None:
    """More attributes than an array has axes: their columns are all alike. The integers say what the plan promised."""
    domain = Domain.of({f"x{place}": 3 for place in range(100)})
    pairs = dict.fromkeys(combinations(domain.names, 2), 1.0)
    plan = least_squared_error(domain, pairs)
    queries = joint_queries(plan)
    assert isinstance(queries, Products)
    one_by_one = sum(
        term.weight**2 * math.prod(int((matrix**2).sum(axis=0).max()) for matrix in term.matrices)
        for term in queries.terms
    )
    assert largest_squared_l2(queries) == one_by_one
    terms = private_statistics(TinyTable(domain, np.zeros((3, 100), dtype=np.int64)), Budget.gdp(1)).terms
    assert Hdmm().plan(terms, all_k_way(domain, 2)).predicted_error == pytest.approx(
        math.sqrt(2 / math.pi * plan.variances[0]), rel=1e-3
    )
