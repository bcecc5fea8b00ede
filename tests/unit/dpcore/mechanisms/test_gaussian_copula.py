"""Gaussian copulas as a mechanism: what is measured, and what rows keep."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.model import TableRows
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.gaussian_copula import GaussianCopula
from dpcore.queries import Marginals, Products
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, explicit, target

DOMAIN = Domain(("a", "b", "label", "c"), (6, 5, 2, 1))
ROWS = 20_000
RICH = Budget.gdp(10**4)


def table() -> TinyTable:
    """a and b agree in one class and oppose each other in the other; alone, neither tells the classes apart."""
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, ROWS)
    first = generator.normal(size=ROWS)
    second = np.where(label, 1, -1) * first * 0.9 + generator.normal(size=ROWS) * np.sqrt(1 - 0.81)
    codes = [np.digitize(first, [-1.5, -0.5, 0, 0.5, 1.5]), np.digitize(second, [-1, -0.3, 0.3, 1])]
    return TinyTable(DOMAIN, np.column_stack([*codes, label, np.zeros(ROWS, np.int64)]))


def released(workload: Workload, budget: Budget = RICH, mechanism: GaussianCopula | None = None) -> Release:
    private = private_statistics(table(), budget)
    release = (mechanism or GaussianCopula()).run(private, workload, generator=np.random.default_rng(1))
    assert private.remaining_share < 1e-12
    return release


def error(release: Release, queries: Marginals) -> float:
    assert release.model is not None
    return float(np.abs(release.model.answer(queries) - exact_answers(table(), queries)).sum() / ROWS)


TRIPLE = Marginals(DOMAIN, (("a", "b", "label"),))
TARGET = target(DOMAIN, 2, "label")


def test_rows_keep_the_dependence_within_the_classes_of_the_target() -> None:
    release = released(TARGET)
    assert error(release, TRIPLE) < 0.06
    assert [type(measurement.queries) for measurement in release.measurements] == [Marginals, Products]


def test_without_classes_opposite_dependence_cancels() -> None:
    assert error(released(all_k_way(DOMAIN, 2)), TRIPLE) > 0.5
    assert error(released(all_k_way(DOMAIN, 2), mechanism=GaussianCopula("label")), TRIPLE) < 0.06


def test_one_number_per_class_and_pair_is_measured() -> None:
    """The attribute of a single value is in no pair."""
    one_way, pairs = released(TARGET).measurements
    assert one_way.queries == Marginals(DOMAIN, (("a", "label"), ("b", "label"), ("label", "c")))
    assert isinstance(pairs.queries, Products)
    assert [term.clique for term in pairs.queries.terms] == [("a", "b", "label")]
    assert pairs.values.shape == (2,)


def test_a_workload_of_one_attribute_has_no_pairs() -> None:
    release = released(explicit(DOMAIN, {("a",): 1.0}))
    assert len(release.measurements) == 1
    assert error(release, Marginals(DOMAIN, (("a",),))) < 0.01


def test_attributes_outside_the_workload_are_uniform() -> None:
    release = released(explicit(DOMAIN, {("a", "label"): 1.0}))
    assert release.model is not None
    counts = release.model.answer(Marginals(DOMAIN, (("b",),)))
    assert np.abs(counts / counts.sum() - 0.2).max() < 0.01


def test_small_budgets_release_rows_as_well() -> None:
    release = released(TARGET, Budget.gdp(1e-4))
    assert release.model is not None
    rows = release.model.sample(100, np.random.default_rng(0))
    assert isinstance(rows, TableRows)
    assert (rows.codes < DOMAIN.sizes).all()


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="mechanism.classes is 'b'; want an attribute that the workload names"):
        GaussianCopula("b").plan(private_statistics(table(), RICH).terms, explicit(DOMAIN, {("a", "label"): 1.0}))


def test_pairs_of_too_many_cells_are_refused() -> None:
    wide = Domain(tuple("abc"), (9_000, 9_000, 3))
    private = private_statistics(TinyTable(wide, np.zeros((1, 3), dtype=np.int64)), RICH)
    with pytest.raises(DomainTooLargeError, match="fewer bins"):
        GaussianCopula().plan(private.terms, all_k_way(wide, 2))


def test_attributes_of_too_many_cells_are_refused_without_pairs() -> None:
    wide = Domain(tuple("ab"), (40_000, 40_000))
    private = private_statistics(TinyTable(wide, np.zeros((1, 2), dtype=np.int64)), RICH)
    with pytest.raises(DomainTooLargeError, match="another attribute for mechanism.classes"):
        GaussianCopula(classes="b").plan(private.terms, all_k_way(wide, 1))


def test_the_plan_has_the_noise_of_the_release() -> None:
    private = private_statistics(table(), Budget.gdp(1))
    plan = GaussianCopula().plan(private.terms, TARGET)
    release = released(TARGET, Budget.gdp(1))
    assert [step.stddev for step in plan.steps] == [measurement.stddev for measurement in release.measurements]
    assert len(plan.events) == 2
