"""Adaptive residuals: all are measured, then those that need it; a selection where noise would prevail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError, ScaleError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.adaptive import adaptive_residuals, predicted
from dpcore.mechanisms.adaptive.adaptive_residuals import AdaptiveResiduals
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Conjunctions, Marginals, Measurable, Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, downward_closure, linear
from tests.support.constants import with_constants

BITS = Domain(tuple("abcdefghij"), (2,) * 10)
ROWS = 2_000
WORKLOAD = all_k_way(BITS, 3)
GENERATOR = np.random.default_rng(0)
BUDGET = Budget.gdp(1)


def table(rows: int = ROWS) -> TinyTable:
    """Independent bits, each with its own chance."""
    generator = np.random.default_rng(1)
    return TinyTable(BITS, (generator.random((rows, 10)) < generator.random(10)).astype(np.int64))


def released(rows: int = ROWS, budget: Budget = BUDGET, units: int | None = None, **constants: Any) -> Release:
    private = private_statistics(table(rows), budget, units=units)
    return with_constants(AdaptiveResiduals(), **constants).run(private, WORKLOAD, generator=GENERATOR)


def cliques_of(queries: Measurable) -> set[Clique]:
    assert isinstance(queries, Products)
    return {term.clique for term in queries.terms}


def test_what_surely_adds_nothing_is_not_measured_again() -> None:
    """Bits are independent, and chance makes pairs differ from that by less than the noise."""
    release = released(5_000, Budget.gdp(Fraction(1, 50)), max_noise=float("inf"))
    first, second = (measurement.queries for measurement in release.measurements[-2:])
    assert share_of(second, 2) < 0.75 * share_of(first, 2)
    assert share_of(second, 1) > share_of(first, 1)


def share_of(queries: Measurable, order: int) -> float:
    """The square of a weight is proportional to the precision of a residual of bits."""
    assert isinstance(queries, Products)
    squares = {len(term.clique): 0 for term in queries.terms}
    for term in queries.terms:
        squares[len(term.clique)] += term.weight**2
    return squares.get(order, 0) / sum(squares.values())


def error(release: Release, rows: int = ROWS) -> float:
    return float(np.abs(release.answers.values - exact_answers(table(rows), release.workload.queries)).mean())


@pytest.mark.parametrize("budget", [Budget.gdp(1), Budget.zcdp(Fraction(1, 2))], ids=["gdp", "zcdp"])
@pytest.mark.parametrize("units", [None, ROWS])
def test_residuals_are_measured_in_two_calls(budget: Budget, units: int | None) -> None:
    """After the number of rows, where it is private. The second call asks for no residual that the first did not."""
    release = released(budget=budget, units=units, max_noise=float("inf"))
    kinds = [type(measurement.queries) for measurement in release.measurements]
    assert kinds == ([Products] * 2 if units else [Marginals, Products, Products])
    first, second = (cliques_of(measurement.queries) for measurement in release.measurements[-2:])
    assert second <= first
    assert first == {(), *downward_closure(WORKLOAD.queries.cliques)}
    assert release.model is None
    assert release.answers.values.min() >= 0


@pytest.mark.parametrize(("few", "share", "factor"), [(176, 0.5, 0.5), (177, 0.75, 1.0)])
def test_the_first_call_measures_a_few_residuals_as_if_it_were_the_only_one(
    few: int, share: float, factor: float
) -> None:
    design = MeasuredResiduals.of(private_statistics(table(), BUDGET).terms, WORKLOAD, error="absolute")
    assert design is not None
    assert len(design.plan.residuals) == 176
    constants = {"few_residuals": few, "max_noise": math.inf}
    release = released(**constants)
    assert release.measurements[1].queries.digest() == design.favouring_small(factor).digest()
    plan = with_constants(AdaptiveResiduals(), **constants).plan(private_statistics(table(), BUDGET).terms, WORKLOAD)
    assert [step.share for step in plan.steps] == pytest.approx([0.01, 0.99 * share, 0.99 * (1 - share)])


def test_independent_data_have_less_than_half_the_error_of_unbiased_answers() -> None:
    budget = Budget.gdp(Fraction(1, 400))
    unbiased = Hdmm().run(private_statistics(table(), budget), WORKLOAD, generator=GENERATOR)
    assert error(released(budget=budget, max_noise=float("inf"))) < 0.5 * error(unbiased)


def test_intervals_contain_the_estimate_and_most_exact_answers() -> None:
    release = released(max_noise=float("inf"))
    answers, exact = release.answers, exact_answers(table(), WORKLOAD.queries)
    assert (answers.lower <= answers.values).all()
    assert (answers.values <= answers.upper).all()
    assert answers.lower.min() >= 0
    assert ((answers.lower <= exact) & (exact <= answers.upper)).mean() > 0.93


def test_a_selection_is_measured_where_noise_would_prevail() -> None:
    release = released(rows=40)
    assert isinstance(release.measurements[0].queries, Marginals)
    assert not any(isinstance(measurement.queries, Products) for measurement in release.measurements)
    assert release.model is None
    assert release.answers.measured


@pytest.mark.parametrize(
    ("sizes", "few", "noise", "limit"),
    [
        ((25, 10), 0, 0.4, None),
        ((25, 10), 0, 0.6, "50%"),
        ((9, 28), 0, 0.2, None),
        ((9, 28), 0, 0.4, "30%"),
        ((9, 28), 1, 0.9, None),
        ((9, 28), 1, 1.2, "100%"),
    ],
)
def test_large_marginals_are_selected_from_less_noise_on_and_few_from_more(
    sizes: tuple[int, int], few: int, noise: float, limit: str | None
) -> None:
    """The noise of one marginal, as a part of a public number of rows."""
    domain = Domain(("a", "b"), sizes)
    workload, codes = all_k_way(domain, 2), np.zeros((1, 2), dtype=np.int64)

    def terms(units: int) -> PrivacyTerms:
        return private_statistics(TinyTable(domain, codes), Budget.gdp(1), units=units).terms

    design = MeasuredResiduals.of(terms(1), workload, error="absolute")
    assert design is not None
    units = round(design.absolute_error(terms(1)) * workload.queries.size / noise)
    mechanism = with_constants(AdaptiveResiduals(), few_marginals=few)
    notes = [note for note in mechanism.plan(terms(units), workload).notes if "exceeds" in note]
    assert notes == ([] if limit is None else [f"the noise of a marginal exceeds {limit} of the rows: aim answers"])


def test_where_too_many_sets_lie_below_the_workload_they_are_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = private_statistics(table(), BUDGET).terms
    assert any("aim" in note for note in AdaptiveResiduals().plan(asked, WORKLOAD).notes)
    monkeypatch.setattr(adaptive_residuals, "_MAX_CANDIDATES", 10)
    assert any("clique_tree" in note for note in AdaptiveResiduals().plan(asked, WORKLOAD).notes)
    assert released(rows=40).model is None


def test_more_noise_gives_small_sets_a_larger_share() -> None:
    design = MeasuredResiduals.of(private_statistics(table(), Budget.gdp(1)).terms, WORKLOAD, error="absolute")
    assert design is not None

    def share(factor: float, order: int) -> float:
        terms = design.favouring_small(factor).terms
        # The square of a weight is proportional to the precision of a residual of its order.
        squares = {k: sum(term.weight**2 for term in terms if len(term.clique) == k) for k in range(4)}
        return squares[order] / sum(squares.values())

    assert share(0.5, 1) > share(1.0, 1)
    assert share(0.5, 3) < share(1.0, 3)
    assert design.favouring_small(1.0).digest() == design.queries.digest()


def test_the_plan_names_the_steps_and_the_fallback() -> None:
    terms = private_statistics(table(), Budget.gdp(1)).terms
    plan = AdaptiveResiduals().plan(terms, WORKLOAD)
    assert [step.share for step in plan.steps] == [0.01, 0.495, 0.495]
    assert any("aim" in note and "50%" in note for note in plan.notes)
    public = private_statistics(table(), Budget.gdp(1), units=ROWS).terms
    assert [step.share for step in AdaptiveResiduals().plan(public, WORKLOAD).steps] == [0.5, 0.5]


def test_the_whole_budget_is_spent() -> None:
    private = private_statistics(table(), BUDGET)
    with_constants(AdaptiveResiduals(), max_noise=float("inf")).run(private, WORKLOAD, generator=GENERATOR)
    assert private.remaining_share == 0


def test_a_budget_too_small_for_the_noise_is_refused_before_anything_is_charged() -> None:
    """The calls get half of the budget each, so that their noise may be too large where that of one call is not."""
    domain = Domain.of({"a": 2, "b": 3, "c": 1, "d": 7})
    statistics = TinyTable(domain, np.zeros((5, 4), dtype=np.int64))
    workload = Workload(Marginals(domain, (("a", "b"), ("b", "d"))), np.ones(2))
    mechanism = with_constants(AdaptiveResiduals(), max_noise=float("inf"))
    for numerator in (10, 14, 18, 24, 28):
        private = private_statistics(statistics, Budget.gdp(Fraction(numerator, 2**60)))
        try:
            mechanism.run(private, workload, generator=GENERATOR)
        except ScaleError:
            assert private.remaining_share == 1


REFUSED: dict[str, tuple[Workload, Budget, str]] = {
    "pure DP": (WORKLOAD, Budget.pure(1), "privacy.delta is 0"),
    "products": (linear(range_marginals(BITS, [("a",)], {"a": prefix(2)})), Budget.gdp(1), "hdmm"),
    "conjunctions": (
        conjunctive(Conjunctions.single_columns(BinaryView.one_hot(BITS))), Budget.gdp(1), "want workload.marginals",
    ),
    "no attribute": (Workload(Marginals(BITS, ((),)), np.ones(1)), Budget.gdp(1), "needs a workload that names"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_before_anything_is_measured(name: str) -> None:
    workload, budget, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        AdaptiveResiduals().run(
            private_statistics(NoStatistics(table().contribution), budget), workload, generator=GENERATOR
        )


def test_too_many_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicted, "_MAX_CELLS", 100)
    with pytest.raises(DomainTooLargeError, match="adaptive_residuals has .* want at most 100"):
        AdaptiveResiduals().plan(private_statistics(table(), Budget.gdp(1)).terms, WORKLOAD)


def test_a_model_gives_rows_and_leaves_the_answers_their_estimates() -> None:
    mechanism = with_constants(AdaptiveResiduals(model="graphical", max_model_mb=512 / 2**17), max_noise=float("inf"))
    release = mechanism.run(private_statistics(table(), BUDGET), WORKLOAD, generator=GENERATOR)
    model = release.model
    assert isinstance(model, GraphicalModel)
    assert model.tree.cells <= 512
    truth = exact_answers(table(), WORKLOAD.queries)
    assert float(np.abs(model.answer(WORKLOAD.queries) - truth).mean()) < 1.2 * error(release)
    assert not np.array_equal(model.answer(WORKLOAD.queries), release.answers.values)
    assert np.isfinite(release.answers.lower).all()


def test_the_model_of_the_rows_keeps_a_part_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def averaged(values: NDArray[np.float64], *_: Any, meter: WorkMeter, **settings: Any) -> Any:
        limits.append(meter.remaining)
        meter.spend(meter.remaining)
        return values

    monkeypatch.setattr(adaptive_residuals, "weighted_mean", averaged)
    for model in ("none", "graphical"):
        mechanism = AdaptiveResiduals(model=model, max_work=1.0)  # type: ignore[arg-type]
        release = mechanism.run(private_statistics(table(), BUDGET), WORKLOAD, generator=GENERATOR)
    assert limits == [UNIT, pytest.approx(0.75 * UNIT)]
    assert isinstance(release.model, GraphicalModel)
    truth = exact_answers(table(), WORKLOAD.queries)
    assert float(np.abs(release.model.answer(WORKLOAD.queries) - truth).mean()) < 1.2 * error(release)


def test_the_selection_keeps_its_model_if_rows_are_wanted() -> None:
    budget = Budget.gdp(Fraction(1, 10_000))
    release = AdaptiveResiduals(model="graphical").run(
        private_statistics(table(), budget), WORKLOAD, generator=GENERATOR
    )
    assert isinstance(release.model, GraphicalModel)
    np.testing.assert_allclose(release.model.answer(WORKLOAD.queries), release.answers.values)
    assert (release.rounds, release.batch) == ((), None)


def test_a_plan_knows_the_model() -> None:
    terms = private_statistics(table(), BUDGET, units=200_000).terms  # So many that no selection is planned.
    without, with_model = (AdaptiveResiduals(model=model).plan(terms, WORKLOAD) for model in ("none", "graphical"))
    assert with_model.memory_bytes > without.memory_bytes
    assert (with_model.cpu_seconds or 0) > (without.cpu_seconds or 0)
    assert any("synthetic rows come from a model" in note for note in with_model.notes)


@pytest.mark.parametrize("settings", [{"max_model_mb": 0.0}, {"max_work": -1.0}])
def test_settings_of_the_model_are_checked(settings: dict[str, float]) -> None:
    terms = private_statistics(table(), BUDGET).terms
    with pytest.raises(ConfigError, match=next(iter(settings))):
        AdaptiveResiduals(model="graphical", **settings).plan(terms, WORKLOAD)
