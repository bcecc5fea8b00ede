"""HDMM on ranges under Laplace noise, all products measured together: unbiased, with the error that the plan says."""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.hdmm.product_marginals import MeasuredProductMarginals
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, identity, prefix, range_marginals
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, linear

DOMAIN = Domain.of({"a": 12, "b": 5, "c": 2, "d": 4})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 4)))
PREFIXES = range_marginals(
    DOMAIN, [("a",), ("a", "b"), ("b", "c", "d"), ("a", "d"), ("c",)], {"a": prefix(12), "d": prefix(4)}
)
FEW = Workload(PREFIXES, np.array([0.5, 1.0, 3.0, 2.0, 1.0]))
PAIRS = linear(range_marginals(DOMAIN, combinations(DOMAIN.names, 2), {"a": all_ranges(12)}))
BUDGET = Budget.pure(1)


def found(workload: Workload, terms: PrivacyTerms) -> MeasuredProductMarginals:
    strategy = MeasuredProductMarginals.of(terms, workload)
    assert strategy is not None
    return strategy


def released(workload: Workload, budget: Budget = BUDGET, **options: Any) -> Any:
    private = private_statistics(TABLE, budget, **options)
    return found(workload, private.terms).run(private, lambda done, total: None)


@pytest.mark.smoke(1)
@pytest.mark.parametrize(("workload", "replaced"), [(FEW, True), (PAIRS, False)], ids=["few", "pairs"])
def test_answers_are_unbiased_with_the_predicted_error_and_intervals_hold(workload: Workload, replaced: bool) -> None:
    options = {"neighbours": REPLACE, "units": 50} if replaced else {}
    exact = exact_answers(TABLE, workload.queries)
    runs = [released(workload, **options).answers for _ in range(150)]
    off = np.array([run.values - exact for run in runs])
    stddev = runs[0].stddev
    assert np.abs(off.mean(axis=0) / stddev).max() < 5.5 / math.sqrt(len(runs))
    squared, predicted = (off**2).sum(axis=1), float((stddev**2).sum())
    deviation = squared.std() / math.sqrt(len(runs))
    assert abs(squared.mean() - predicted) < 4.5 * deviation < 0.25 * predicted
    terms = private_statistics(TABLE, BUDGET, **options).terms
    plan = found(workload, terms).release_plan(terms)
    assert plan.predicted_error is not None
    absolute = np.abs(off).mean(axis=1)
    deviation = absolute.std() / math.sqrt(len(runs))
    assert 0.88 * plan.predicted_error - 4.5 * deviation < absolute.mean() < plan.predicted_error + 4.5 * deviation
    assert 0.95 < np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs]) < 0.99


@pytest.mark.parametrize(("workload", "least"), [(FEW, 0.85), (PAIRS, 0.6)], ids=["few", "pairs"])
def test_they_are_better_than_parts_by_what_they_say(workload: Workload, least: float) -> None:
    private = private_statistics(TABLE, BUDGET)
    weights = np.repeat(workload.weights, [term.size for term in workload.queries.terms])  # type: ignore[union-attr]
    error = float(((weights * released(workload).answers.stddev) ** 2).sum())
    assert found(workload, private.terms).weighted_error(private.terms) == pytest.approx(error)
    apart = Hdmm(strategy="parts").run(private, workload, generator=np.random.default_rng(0)).answers
    assert error < least * float(((weights * apart.stddev) ** 2).sum())


def test_answers_are_least_squares_of_all_measured_values() -> None:
    """Against the dense pseudo-inverse, with the precision of each product."""
    release = released(FEW)

    def rows(queries: Products) -> Any:
        parts = []
        for term in queries.terms:
            named = dict(zip(term.clique, term.matrices, strict=True))
            ones = [named.get(name, np.ones((1, size))) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)]
            parts.append(reduce(np.kron, ones))
        return np.concatenate(parts) / queries.denominator

    strategy = np.vstack([rows(one.queries) / one.stddev for one in release.measurements])
    values = np.concatenate([one.values / one.stddev for one in release.measurements])
    inverse = np.linalg.pinv(strategy, rcond=1e-10)
    np.testing.assert_allclose(release.answers.values, rows(PREFIXES) @ (inverse @ values), atol=1e-7)
    np.testing.assert_allclose(release.answers.stddev**2, ((rows(PREFIXES) @ inverse) ** 2).sum(axis=1), rtol=1e-7)


def test_the_plan_and_its_run_measure_the_same_and_spend_the_budget() -> None:
    private = private_statistics(TABLE, BUDGET)
    plan = found(FEW, private.terms).release_plan(private.terms)
    told: list[tuple[int, int]] = []
    release = found(FEW, private.terms).run(private, lambda done, total: told.append((done, total)))
    assert [step.calls for step in plan.steps] == [1] * len(release.measurements)
    assert [one.stddev for one in release.measurements] == pytest.approx([step.stddev for step in plan.steps])
    assert told == [(place + 1, len(plan.steps)) for place in range(len(plan.steps))]
    assert 0 <= private.remaining_share < 1e-9
    assert len(plan.events) == len(plan.steps)
    again = Workload(
        range_marginals(DOMAIN, [one.clique for one in PREFIXES.terms], {"a": prefix(12), "d": prefix(4)}), FEW.weights
    )
    assert found(again, private.terms).strategy is found(FEW, private.terms).strategy


def test_without_noise_the_answers_are_exact() -> None:
    for workload in (FEW, PAIRS):
        answers = released(workload, Budget.pure(10**9)).answers
        np.testing.assert_allclose(answers.values, exact_answers(TABLE, workload.queries), atol=1e-4)


def test_other_workloads_and_noise_are_left_to_others() -> None:
    terms = private_statistics(TABLE, BUDGET).terms
    assert MeasuredProductMarginals.of(private_statistics(TABLE, Budget.zcdp(1)).terms, FEW) is None
    assert MeasuredProductMarginals.of(terms, all_k_way(DOMAIN, 2)) is None
    different = (Product(("a",), (prefix(12),)), Product(("a",), (identity(12),)))
    assert MeasuredProductMarginals.of(terms, linear(Products(DOMAIN, different))) is None
    wide = Domain.of({f"x{place}": 2 for place in range(17)})
    assert MeasuredProductMarginals.of(terms, linear(range_marginals(wide, combinations(wide.names, 2), {}))) is None
    tiny = private_statistics(TABLE, Budget.pure("1e-9")).terms
    assert MeasuredProductMarginals.of(tiny, FEW) is None
