"""MWEM on single queries against Fig. 1 written out by hand where there is no noise, and its use of the budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.mwem import mwem_queries
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.queries import Conjunctions, Marginals, Product, Products
from dpcore.queries.ranges import all_ranges, range_marginals
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, linear
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 5, "unused": 50, "b": 3})
ROWS = np.random.default_rng(1).integers(0, DOMAIN.sizes, (200, 3))
ROWS[:120, 0] = 1
ROWS[:90, 2] = 2
TABLE = TinyTable(DOMAIN, ROWS)
RANGES = range_marginals(DOMAIN, [("a", "b"), ("a",)], {"a": all_ranges(5), "b": all_ranges(3)})
WORKLOAD = linear(RANGES)
DENSE = np.vstack([np.kron(all_ranges(5), all_ranges(3)), np.kron(all_ranges(5), np.ones((1, 3)))])
BINARY = Domain.of(dict.fromkeys("pqrs", 2))
BITS = np.random.default_rng(2).integers(0, 2, (200, 4))
BITS[:150, 2] = BITS[:150, 0]
BINARY_TABLE, PAIRS = TinyTable(BINARY, BITS), all_k_way(BINARY, 2)
NO_NOISE = Budget.pure(10**9)
GENERATOR = np.random.default_rng(0)
FIG_1 = MwemQueries(rounds=6, profile="published")
BUDGETS = (Budget.pure(1), Budget.zcdp(1), Budget.gdp(1))
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def by_hand(rounds: int, passes: int, newest_only: bool, step: float) -> list[NDArray[np.float64]]:
    """The tables A_0 .. A_T of Fig. 1 without noise, over a x b."""
    truth = DENSE @ np.bincount(ROWS[:, 0] * 3 + ROWS[:, 2], minlength=15)
    history, chosen = [np.full(15, 200 / 15)], list[int]()
    for _ in range(rounds):
        table = history[-1]
        chosen.append(int(np.argmax(np.abs(truth - DENSE @ table))))
        for _ in range(passes):
            for query in chosen[-1:] if newest_only else chosen:
                table = table * np.exp(step * DENSE[query] * (truth[query] - DENSE[query] @ table) / 200)
                table = table * 200 / table.sum()
        history.append(table)
    return history


def table_of(mechanism: MwemQueries, workload: Workload = WORKLOAD) -> NDArray[np.float64]:
    release = mechanism.run(private_statistics(TABLE, NO_NOISE, units=200), workload, generator=GENERATOR)
    assert isinstance(release.model, DenseModel)
    assert release.model.domain.names == ("a", "b")
    assert np.allclose(release.answers.values, DENSE @ release.model.table)
    return release.model.table


def test_it_is_fig_1() -> None:
    assert np.allclose(table_of(FIG_1), np.mean(by_hand(6, 1, True, 0.5)[:-1], axis=0), rtol=1e-6)


def test_the_final_table_follows_all_measurements() -> None:
    mechanism = with_constants(MwemQueries(rounds=6), passes=4, final_passes=0, tolerance=0.0, step=1.0)
    assert np.allclose(table_of(mechanism), by_hand(6, 4, False, 1.0)[-1], rtol=1e-6)


@every_budget
@pytest.mark.parametrize("start", ["uniform", "cells"])
def test_without_noise_many_rounds_are_exact(budget: Budget, start: str) -> None:
    plenty = 10**6 if budget.currency is Currency.PURE else 10**13
    mechanism = with_constants(MwemQueries(rounds=25), final_passes=500, step=4.0, start=start, start_share=0.5)
    private = private_statistics(TABLE, Budget(budget.currency, plenty * budget.amount))
    release = mechanism.run(private, WORKLOAD, generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(TABLE, RANGES), atol=2)


def test_without_noise_parities_give_all_marginals() -> None:
    mechanism = with_constants(MwemQueries(queries="parities", rounds=20), final_passes=500)
    release = mechanism.run(private_statistics(BINARY_TABLE, NO_NOISE), PAIRS, generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(BINARY_TABLE, PAIRS.queries), atol=0.5)
    parities = [measurement.queries for measurement in release.measurements[1:]]
    assert all(isinstance(parity, Products) and parity.size == 1 for parity in parities)
    first = parities[0]
    assert isinstance(first, Products)
    assert first.terms[0].clique == ("p", "r")  # The two attributes that are mostly equal.


@every_budget
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("start", ["uniform", "cells"])
def test_the_budget_is_charged_as_planned(budget: Budget, replaced: bool, start: str) -> None:
    mechanism = with_constants(MwemQueries(rounds=5), start=start, start_share=0.5, select_share=0.3)
    neighbours = REPLACE if replaced else ADD_REMOVE
    private = private_statistics(TABLE, budget, neighbours=neighbours, units=200)
    plan = mechanism.plan(private.terms, WORKLOAD)
    release = mechanism.run(private, WORKLOAD, generator=GENERATOR)
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert sum(step.calls for step in plan.steps) == len(private.charges) == 10 + (start == "cells")
    assert sum(charge.amount for charge in private.charges) == sum(event.charged for event in plan.events)
    assert 0 <= private.remaining_share < Fraction(1, 1 << 20)
    single, share = release.measurements[-5:], Fraction(plan.steps[-1].share) / 5
    scales = [private.terms.measure_scale(measurement.queries, share) for measurement in single]
    expected = [noise_stddev(private.terms.noise, scale) for scale in scales]
    assert [measurement.stddev for measurement in single] == pytest.approx(expected)
    assert max(expected) == pytest.approx(plan.steps[-1].stddev)  # Replacing a row moves the number of all rows less.


def test_the_shares_are_those_of_fig_1() -> None:
    """Half of epsilon / T selects, half measures with noise of scale 2 T / epsilon."""
    private = private_statistics(TABLE, Budget.pure(1), units=200)
    release = FIG_1.run(private, WORKLOAD, generator=GENERATOR)
    assert [measurement.scale for measurement in release.measurements] == pytest.approx([12.0] * 6)


def conjunctions() -> Workload:
    return conjunctive(Conjunctions(BinaryView(4), np.array([[0, 1]]), np.zeros((1, 2), dtype=np.bool_)))


def nothing_asked() -> Workload:
    return linear(Products(DOMAIN, (Product(("b",), (np.array([[0, 0, 0], [1, 0, 0]]),)),)))


@pytest.mark.parametrize(
    ("mechanism", "workload", "message"),
    [
        (MwemQueries(), all_k_way(DOMAIN, 1), "want workload.marginals with prefix or ranges"),
        (MwemQueries(), conjunctions(), "want workload.marginals"),
        (MwemQueries(), nothing_asked(), "asks for no value"),
        (MwemQueries(queries="parities"), WORKLOAD, "attribute 'a' has 5 values; want 2"),
        (MwemQueries(rounds=0), WORKLOAD, "mechanism.rounds is 0; want rounds >= 1"),
        (MwemQueries(profile="printed"), WORKLOAD, "want default or published"),  # type: ignore[arg-type]
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_measured(
    mechanism: MwemQueries, workload: Workload, message: str
) -> None:
    private = private_statistics(NoStatistics(Contribution(Shape.TABLE, 1)), Budget.pure(1))
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(private.terms, workload)
    with pytest.raises(ConfigError, match=message):
        mechanism.run(private, workload, generator=GENERATOR)


def test_baskets_large_tables_and_too_many_queries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    baskets = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 3)), Budget.pure(1))
    with pytest.raises(ConfigError, match="baskets"):
        MwemQueries().plan(baskets, WORKLOAD)
    table = PrivacyTerms(PrivacyUnit(ADD_REMOVE, TABLE.contribution), Budget.pure(1))
    wide = Domain.of({"a": 1025, "b": 1024})
    with pytest.raises(DomainTooLargeError, match="a x b"):
        MwemQueries().plan(table, linear(range_marginals(wide, [("a", "b")], {})))
    monkeypatch.setattr(mwem_queries, "LARGEST_CANDIDATES", RANGES.size - 1)
    with pytest.raises(ConfigError, match="would select from 105 queries; want at most 104"):
        MwemQueries().plan(table, WORKLOAD)


def test_parities_of_products_are_those_of_their_marginals() -> None:
    queries = range_marginals(BINARY, [("p", "q")], {"p": all_ranges(2)})
    release = MwemQueries(queries="parities", rounds=2).run(
        private_statistics(BINARY_TABLE, Budget.pure(1)), linear(queries), generator=GENERATOR
    )
    assert release.answers.values.shape == (6,)
    assert isinstance(release.measurements[0].queries, Marginals)
