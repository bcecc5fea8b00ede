"""Gaussian+PGM: it measures what the plain mechanisms measure, and makes a model of that."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.bounds import bounds
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import Request
from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.gaussian_pgm import GaussianPgm
from dpcore.queries import Conjunctions, Marginals, Products
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, linear

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (300, 4)))
CLIQUES = (("a", "b"), ("b", "c"), ("d",))
WORKLOAD = explicit(DOMAIN, dict(zip(CLIQUES, (1.0, 5.0, 0.2), strict=True)))
LONG = Domain.of({"a": 3, "b": 4, "c": 2, "d": 2049})  # One value too many for residuals.
BUDGETS = (Budget.pure(1), Budget.zcdp(1), Budget.gdp(1))
GENERATOR = np.random.default_rng(0)
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def agree(release: Release) -> bool:
    """Whether answers agree where marginals overlap."""
    ab, bc = release.answers.values[:12].reshape(3, 4), release.answers.values[12:20].reshape(4, 2)
    return np.allclose(ab.sum(axis=0), bc.sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize(("budget", "domain"), [(BUDGETS[0], DOMAIN), (BUDGETS[1], LONG)], ids=["pure", "long"])
def test_it_measures_what_the_plain_mechanism_measures(budget: Budget, domain: Domain) -> None:
    """To the last bit, under pure DP and where an attribute has too many values for residuals: one journal serves both.
    Its own answers agree where marginals overlap, and none is negative.
    """
    journal, table = MemoryJournal(), TinyTable(domain, TABLE.codes)
    workload = explicit(domain, dict(zip(CLIQUES, WORKLOAD.weights.tolist(), strict=True)))
    plain = Laplace() if budget.currency is Currency.PURE else Gaussian()
    first = plain.run(private_statistics(table, budget, journal=journal), workload, generator=GENERATOR)
    release = GaussianPgm().run(private_statistics(table, budget, journal=journal), workload, generator=GENERATOR)
    assert len(journal.answers) == 3
    values = np.concatenate([measurement.values for measurement in release.measurements])
    assert np.array_equal(values, first.answers.values)
    assert release.answers.values.min() >= 0
    assert agree(release)
    assert not agree(first)


@pytest.mark.parametrize("budget", BUDGETS[1:], ids=["zcdp", "gdp"])
@pytest.mark.parametrize("units", [None, 300])
def test_under_gaussian_noise_it_measures_residuals_once(budget: Budget, units: int | None) -> None:
    """a, b, c, d, two pairs and, in the same call, the number of rows; least squares from them is off by what the plan
    says, less than from marginals one by one.
    """
    private = private_statistics(TABLE, budget, units=units)
    plan = GaussianPgm().plan(private.terms, WORKLOAD)
    release = GaussianPgm().run(private, WORKLOAD, generator=GENERATOR)
    (measured,) = release.measurements
    assert isinstance(measured.queries, Products)
    wanted = {(), ("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c")}
    assert {term.clique for term in measured.queries.terms} == wanted
    assert [step.label for step in plan.steps] == ["measure 7 weighted residuals of marginals"]
    assert [step.stddev for step in plan.steps] == [measured.stddev]
    told = Residuals([measured]).answers(WORKLOAD.queries)
    error = math.sqrt(2 / math.pi) * told.stddev.mean()
    noted = re.fullmatch(
        r"the measured values alone have an expected absolute error of (\S+) counts per cell", plan.notes[0]
    )
    assert noted is not None
    assert float(noted[1]) == pytest.approx(error, rel=0.01)  # Weights of residuals are rounded.
    plain = Gaussian().plan(private.terms, WORKLOAD).predicted_error
    assert plain is not None
    assert error < 0.9 * plain
    assert agree(release)
    assert release.answers.values.min() >= 0


@every_budget
def test_the_data_are_passed_over_once(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    aggregate = TinyTable.aggregate

    def watched(table: TinyTable, request: Request) -> NDArray[np.int64]:
        asked.append(request)
        return aggregate(table, request)

    monkeypatch.setattr(TinyTable, "aggregate", watched)
    GaussianPgm().run(private_statistics(TABLE, budget, units=300), WORKLOAD, generator=GENERATOR)
    assert len(asked) == 1


@every_budget
@pytest.mark.parametrize("units", [None, 300])
def test_without_noise_the_answers_are_exact(budget: Budget, units: int | None) -> None:
    plenty = 400 if budget.currency is Currency.PURE else 10**10
    private = private_statistics(TABLE, Budget(budget.currency, plenty * budget.amount), units=units)
    release = GaussianPgm().run(private, WORKLOAD, generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(TABLE, WORKLOAD.queries), atol=0.02)


def test_the_model_is_nearer_to_the_truth_than_the_measured_values() -> None:
    """On rare cells most of all, whose noisy counts are often negative."""
    codes = np.random.default_rng(1).choice(6, (200, 2), p=[0.8, 0.1, 0.05, 0.03, 0.02, 0.0])
    domain = Domain.of({"x": 6, "y": 6})
    table, workload = TinyTable(domain, codes), all_k_way(domain, 2)
    exact, errors = exact_answers(table, workload.queries), np.zeros(2)
    for _ in range(10):
        release = GaussianPgm().run(
            private_statistics(table, Budget.zcdp(Fraction(1, 10))), workload, generator=GENERATOR
        )
        found = (release.answers.values, Residuals(release.measurements).answers(workload.queries).values)
        errors += [np.abs(values - exact).mean() for values in found]
    assert errors[0] < 0.7 * errors[1]


@every_budget
@pytest.mark.parametrize("units", [None, 300])
def test_intervals_cover_answers_and_bounds_hold_for_marginals_asked_later(budget: Budget, units: int | None) -> None:
    """95 % of 28 runs of 23 cells, with the spread of runs; ("a",), a part of a measured one, is asked later."""
    later = Marginals(DOMAIN, (("a",),))
    exact, table = exact_answers(TABLE, WORKLOAD.queries), exact_answers(TABLE, later)
    small, covered, runs = Budget(budget.currency, budget.amount / 2), [], 28
    for _ in range(runs):
        release = GaussianPgm().run(private_statistics(TABLE, small, units=units), WORKLOAD, generator=GENERATOR)
        answers = release.answers
        covered.append(((answers.lower <= exact) & (exact <= answers.upper)).mean())
        assert (answers.lower <= answers.values).all()
        assert (answers.values <= answers.upper).all()
        assert isinstance(release.model, GraphicalModel)
        measured, batch = release.measurements, release.batch
        (bound,) = bounds(release.model, measured, (), later.cliques, 0.999, batch=batch, rows=units)
        assert bound.supported
        assert bound.l1 >= np.abs(release.model.answer(later) - table).sum()
        assert bound.l1 < 600  # That of two tables of so many rows that share none.
    assert np.mean(covered) > 0.95 - 4 * np.std(covered) / math.sqrt(runs)


def test_products_are_answered_from_marginals_whose_weights_add_up() -> None:
    queries = range_marginals(DOMAIN, [("a", "b"), ("b", "a"), ("c",)], {"b": prefix(4), "a": all_ranges(3)})
    products = Workload(queries, np.array([1.0, 2.0, 4.0]))
    marginals = explicit(DOMAIN, {("a", "b"): 3.0, ("c",): 4.0})
    terms = private_statistics(TABLE, BUDGETS[1]).terms
    assert GaussianPgm().plan(terms, products).steps == GaussianPgm().plan(terms, marginals).steps
    private = private_statistics(TABLE, Budget.zcdp(10**10))
    release = GaussianPgm().run(private, products, generator=GENERATOR)
    assert np.allclose(release.answers.values, exact_answers(TABLE, queries), atol=0.05)


def test_the_plan_tells_what_is_measured_clique_by_clique() -> None:
    private = private_statistics(TABLE, BUDGETS[0])
    plan = GaussianPgm().plan(private.terms, WORKLOAD)
    release = GaussianPgm().run(private, WORKLOAD, generator=GENERATOR)
    assert [step.stddev for step in plan.steps] == [measured.stddev for measured in release.measurements]
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    direct = Laplace().plan(private.terms, WORKLOAD).predicted_error
    note = f"the measured values alone have an expected absolute error of {direct:,.3g} counts per cell"
    assert plan.notes[0] == note


def test_a_model_that_is_too_large_is_refused_before_anything_is_measured() -> None:
    """All pairs make one clique of all attributes: 3 * 4 * 2 * 3 cells."""
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGETS[1])
    small = GaussianPgm(max_model_mb=71 / 2**17)
    message = "the model of mechanism gaussian_pgm has 72 cells; want at most 71: .* mechanism aim or clique_tree"
    for call in (
        lambda: small.plan(private.terms, all_k_way(DOMAIN, 2)),
        lambda: small.run(private, all_k_way(DOMAIN, 2), generator=GENERATOR),
    ):
        with pytest.raises(DomainTooLargeError, match=message):
            call()
    assert private.charges == ()
    assert GaussianPgm(max_model_mb=72 / 2**17).plan(private.terms, all_k_way(DOMAIN, 2)).steps


def test_by_default_all_triples_of_adults_categorical_attributes_are_too_many() -> None:
    domain = Domain(tuple("abcdefgh"), (9, 16, 7, 15, 6, 5, 2, 42))
    with pytest.raises(DomainTooLargeError, match="has 38,102,400 cells; want at most 10,485,760"):
        GaussianPgm().plan(private_statistics(TABLE, BUDGETS[1]).terms, all_k_way(domain, 3))


WIDE = Domain.of({f"x{place}": 1 << 12 for place in range(3)})
REFUSED: dict[str, tuple[dict[str, Any], Workload, str]] = {
    "no model": ({"max_model_mb": 0.0}, WORKLOAD, "mechanism.max_model_mb is 0; want"),
    "too many values": (
        {"max_model_mb": 1e9},
        Workload(Marginals(WIDE, (("x0", "x1"), ("x1", "x2"))), np.ones(2)),
        "the marginals of mechanism gaussian_pgm has 33,554,432 cells; want at most",
    ),
    "ranges of a basket": (
        {},
        conjunctive(Conjunctions.single_columns(BinaryView(5))),
        "mechanism gaussian_pgm answers marginals, .* want workload.marginals",
    ),
}


@pytest.mark.parametrize(("settings", "workload", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], workload: Workload, message: str) -> None:
    terms = private_statistics(TABLE, BUDGETS[1]).terms
    with pytest.raises(ConfigError, match=message):
        GaussianPgm(**settings).plan(terms, workload)


def test_linear_workloads_of_equal_weight_split_a_pure_budget_by_size() -> None:
    terms = private_statistics(TABLE, BUDGETS[0]).terms
    steps = GaussianPgm().plan(terms, linear(range_marginals(DOMAIN, [("a",), ("b", "d")], {}))).steps
    assert steps[1].share / steps[0].share == pytest.approx((12 / 3) ** (1 / 3))
