from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.independent import IndependentModel
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.clipping.popularity import noisy_popularity
from dpcore.mechanisms.independent import UNITS_SHARE, Independent
from dpcore.mechanisms.shared.totals import row_total, total_share
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import REPLACE, NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, part_sizes

DOMAIN = Domain.of({"a": 2, "b": 4, "unused": 9})
CODES = np.random.default_rng(0).integers(0, [2, 4, 9], (60, 3))
TABLE = TinyTable(DOMAIN, CODES)
PAIRS = all_k_way(DOMAIN, 2, ["a", "b"])
VIEW = BinaryView.one_hot(DOMAIN)
BITS = np.random.default_rng(1).random((80, 5)) < [0.1, 0.3, 0.5, 0.7, 1.0]
BASKETS = TinyBaskets(BinaryView(5), BITS)
TRIPLES = Conjunctions(BinaryView(5), np.array([[0, 1, 2], [2, 3, 4]]), np.array([[False] * 3, [True, False, False]]))
NO_NOISE = Budget.pure(10**9)
GENERATOR = np.random.default_rng(0)


def model_of(statistics: Any, workload: Workload, budget: Budget = NO_NOISE, **options: Any) -> IndependentModel:
    private = private_statistics(statistics, budget, **options)
    release = Independent().run(private, workload, generator=GENERATOR)
    assert isinstance(release.model, IndependentModel)
    return release.model


@pytest.mark.parametrize("options", [{}, {"neighbours": REPLACE, "units": 60}])
def test_a_table_without_noise_is_the_product_of_its_marginals(options: dict[str, Any]) -> None:
    model = model_of(TABLE, PAIRS, **options)
    a, b = (np.bincount(CODES[:, axis], minlength=DOMAIN.sizes[axis]) / 60 for axis in (0, 1))
    assert model.total == pytest.approx(60)
    assert np.allclose(model.answer(PAIRS.queries), 60 * np.outer(a, b).ravel())


def test_products_of_a_table_are_sums_of_products_of_its_marginals() -> None:
    """Only attributes that a term names are measured."""
    queries = range_marginals(DOMAIN, [("a", "b"), ("b",)], {"b": prefix(4, 3)})
    model = model_of(TABLE, Workload(queries, np.array([1.0, 5.0])))
    assert model.domain == DOMAIN.project(["a", "b"])
    a, b = (np.bincount(CODES[:, axis], minlength=DOMAIN.sizes[axis]) / 60 for axis in (0, 1))
    below = np.array([b[0], b[:2].sum(), b[:3].sum(), b[3]])
    assert np.allclose(model.answer(queries), 60 * np.concatenate([np.outer(a, below).ravel(), below]))


def test_conjunctions_of_a_table_use_its_groups_and_keep_its_names() -> None:
    model = model_of(TABLE, conjunctive(Conjunctions.single_columns(VIEW)))
    for start, stop in VIEW.groups:
        assert model.probabilities[start:stop].sum() == pytest.approx(1.0)
    assert model.domain == DOMAIN


@pytest.mark.parametrize("options", [{}, {"neighbours": REPLACE, "units": 80}])
def test_baskets_without_noise_are_the_product_of_their_items(options: dict[str, Any]) -> None:
    model = model_of(BASKETS, conjunctive(TRIPLES), **options)
    p = BITS.mean(axis=0)
    assert model.total == pytest.approx(80)
    assert np.allclose(model.answer(TRIPLES), [80 * p[0] * p[1] * p[2], 80 * (1 - p[2]) * p[3] * p[4]])


def test_a_public_number_of_units_costs_nothing_and_a_private_one_its_share() -> None:
    for units, verbs in ((80, 1), (None, 2)):
        private = private_statistics(BASKETS, Budget.pure(1), units=units)
        Independent().run(private, conjunctive(TRIPLES), generator=GENERATOR)
        amounts = [charge.amount for charge in private.charges]
        assert amounts == ([Fraction(UNITS_SHARE), 1 - Fraction(UNITS_SHARE)] if verbs == 2 else [1])
        plan = Independent().plan(private.terms, conjunctive(TRIPLES))
        assert [step.share for step in plan.steps] == [float(amount) for amount in amounts]


@pytest.mark.parametrize("budget", [Budget.pure(Fraction(1, 10**6)), Budget.zcdp(Fraction(1, 10**12))])
@pytest.mark.parametrize(("statistics", "workload"), [(TABLE, PAIRS), (BASKETS, conjunctive(TRIPLES))])
def test_noise_far_above_the_data_gives_a_distribution(budget: Budget, statistics: Any, workload: Workload) -> None:
    for _ in range(5):
        model = model_of(statistics, workload, budget)
        assert np.isfinite(model.probabilities).all()
        assert model.probabilities.min() >= 0
        assert model.probabilities.max() <= 1
        assert model.total >= 1


def test_popularity_is_what_stands_out_of_the_noise() -> None:
    private = private_statistics(BASKETS, NO_NOISE)
    assert noisy_popularity(private, BinaryView(5), Fraction(1)) == pytest.approx(BITS.sum(axis=0))
    assert [charge.amount for charge in private.charges] == [NO_NOISE.amount]


def test_popularity_below_the_noise_is_uniform() -> None:
    """Two standard deviations are taken off: at a noise of a million a column stays with chance 0.03, often none."""
    popularities = [
        noisy_popularity(private_statistics(BASKETS, Budget.pure(Fraction(1, 10**6))), BinaryView(5), Fraction(1))
        for _ in range(20)
    ]
    assert any((weights == 1).all() for weights in popularities)
    assert all((weights >= 0).all() and weights.any() for weights in popularities)


@pytest.mark.parametrize(
    ("bound", "units", "share", "charged"), [(1, 60, 0, 0), (1, None, 0.1, 1), (2, 30, 0.1, 1), (2, None, 0.1, 1)]
)
def test_the_row_total_is_bought_where_it_is_not_public(
    bound: int, units: int | None, share: float, charged: int
) -> None:
    private = private_statistics(TinyTable(DOMAIN, CODES, bound), NO_NOISE, units=units)
    assert total_share(private.terms, Fraction(1, 10)) == (Fraction(1, 10) if share else 0)
    total, measured = row_total(private, DOMAIN, Fraction(1, 10))
    assert total == 60
    assert len(private.charges) == len(measured) == charged
    assert all(m.queries == Marginals(DOMAIN, ((),)) for m in measured)


def test_a_noisy_row_total_is_at_least_one() -> None:
    for _ in range(20):
        private = private_statistics(TinyTable(DOMAIN, CODES[:1]), Budget.pure(Fraction(1, 1000)))
        assert row_total(private, DOMAIN, Fraction(1))[0] >= 1


def test_the_number_of_units_is_measured_for_baskets_alone() -> None:
    for statistics, workload, units in ((BASKETS, conjunctive(TRIPLES), 1), (TABLE, PAIRS, 0)):
        release = Independent().run(private_statistics(statistics, NO_NOISE), workload, generator=GENERATOR)
        assert sum(isinstance(measured.queries, UnitCount) for measured in release.measurements) == units


@pytest.mark.parametrize("queries", [
    Marginals(DOMAIN, ((),)), Marginals(DOMAIN, ((), ())), Products(DOMAIN, (Product((), (), 1),)),
])  # fmt: skip
def test_a_workload_that_names_no_attribute_is_refused(queries: Marginals | Products) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), NO_NOISE)
    no_attribute = Workload(queries, np.ones(len(part_sizes(queries))))
    message = "independent needs a workload that names an attribute; want a clique of one attribute or more"
    with pytest.raises(ConfigError, match=message):
        Independent().plan(private.terms, no_attribute)
    with pytest.raises(ConfigError, match=message):
        Independent().run(private, no_attribute, generator=GENERATOR)
    assert private.charges == ()
