"""HDMM: its error is the predicted one, and what it measures is the best split of the best strategies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget, Currency
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.hdmm import parts
from dpcore.mechanisms.hdmm.hdmm import Hdmm, HdmmConstants
from dpcore.queries import Conjunctions, Product, Products, SymmetricQueries
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.doubles import REPLACE, NoStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, cell_weights, conjunctive, explicit, linear
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 6, "b": 16, "c": 2})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 3)))
RANGES = Workload(
    range_marginals(DOMAIN, [("a", "b"), ("b",), ("a", "c"), ()], {"a": all_ranges(6), "b": prefix(16)}),
    np.array([1.0, 4.0, 2.0, 1.0]),
)
MARGINALS = explicit(DOMAIN, {("a",): 1.0, ("b", "c"): 3.0, (): 0.5})
GENERATOR = np.random.default_rng(0)
BUDGETS = (Budget.pure(1), Budget.zcdp(1), Budget.gdp(1))
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


PARTS = Hdmm(strategy="parts")


def released(budget: Budget, workload: Workload = RANGES, mechanism: Hdmm = PARTS, **options: Any) -> Any:
    return mechanism.run(private_statistics(TABLE, budget, **options), workload, generator=GENERATOR)


@pytest.mark.smoke(1)
@pytest.mark.parametrize("mechanism", [PARTS, Hdmm()], ids=["parts", "best"])
@pytest.mark.parametrize(
    ("budget", "replaced"), [(BUDGETS[0], False), (BUDGETS[1], True), (BUDGETS[2], False)], ids=str
)
def test_the_error_is_the_predicted_one(budget: Budget, replaced: bool, mechanism: Hdmm) -> None:
    """Mean squared and mean absolute error over many runs; half or twice the prediction is rejected."""
    options = {"neighbours": REPLACE, "units": 50} if replaced else {}
    exact = exact_answers(TABLE, RANGES.queries)
    runs = [released(budget, mechanism=mechanism, **options).answers for _ in range(120)]
    squared = np.array([((run.values - exact) ** 2).sum() for run in runs])
    predicted = float((runs[0].stddev ** 2).sum())
    deviation = squared.std() / math.sqrt(len(runs))
    assert abs(squared.mean() - predicted) < 4.5 * deviation
    for wrong in (0.5, 2.0):
        assert abs(squared.mean() - wrong * predicted) > 4.5 * deviation
    absolute = np.array([np.abs(run.values - exact).mean() for run in runs])
    plan = mechanism.plan(private_statistics(TABLE, budget, **options).terms, RANGES)
    assert plan.predicted_error is not None
    deviation = absolute.std() / math.sqrt(len(runs))
    assert 0.88 * plan.predicted_error - 4.5 * deviation < absolute.mean() < plan.predicted_error + 4.5 * deviation
    covered = np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs])
    assert 0.925 < covered < 0.985


@every_budget
def test_without_noise_the_answers_are_exact(budget: Budget) -> None:
    plenty = Budget(budget.currency, budget.amount * 10**18)
    for workload, mechanism in ((RANGES, PARTS), (MARGINALS, PARTS), (RANGES, Hdmm()), (MARGINALS, Hdmm())):
        answers = released(plenty, workload, mechanism).answers
        assert np.allclose(answers.values, exact_answers(TABLE, workload.queries), atol=1e-4)


@every_budget
def test_no_other_split_has_a_smaller_weighted_error(budget: Budget) -> None:
    plan = PARTS.plan(private_statistics(TABLE, budget).terms, RANGES)
    shares = np.array([step.share for step in plan.steps])
    power = 2 if budget.currency is Budget.pure(1).currency else 1
    answers = released(budget).answers
    weighted = (cell_weights(RANGES) * answers.stddev) ** 2
    sizes = [term.size for term in RANGES.queries.terms]  # type: ignore[union-attr]
    errors = np.array([part.sum() for part in np.split(weighted, np.cumsum(sizes)[:-1])]) * shares**power
    best = (errors / shares**power).sum()
    for seed in range(20):
        others = shares * np.random.default_rng(seed).uniform(0.8, 1.25, shares.size)
        assert (errors / (others / others.sum()) ** power).sum() > best * (1 - 1e-6)


@pytest.mark.parametrize(
    ("mechanism", "budget"), [(Laplace(), BUDGETS[0]), (Gaussian(), BUDGETS[1]), (Gaussian(), BUDGETS[2])]
)
def test_parts_of_marginals_have_additive_noise(mechanism: Laplace | Gaussian, budget: Budget) -> None:
    """To the last bit: one journal serves both."""
    journal, asked = MemoryJournal(), Hdmm(strategy="parts")
    first = mechanism.run(private_statistics(TABLE, budget, journal=journal), MARGINALS, generator=GENERATOR)
    again = asked.run(private_statistics(TABLE, budget, journal=journal), MARGINALS, generator=GENERATOR)
    assert len(journal.answers) == 3
    for name in ("values", "stddev", "lower", "upper"):
        assert np.array_equal(getattr(first.answers, name), getattr(again.answers, name))
    terms = private_statistics(TABLE, budget).terms
    one, other = mechanism.plan(terms, MARGINALS), asked.plan(terms, MARGINALS)
    assert one.steps == other.steps
    assert one.predicted_error == pytest.approx(other.predicted_error)


@every_budget
def test_ranges_are_answered_far_better_than_by_noise_on_each(budget: Budget) -> None:
    domain = Domain.of({"a": 40, "b": 30})
    workload = linear(range_marginals(domain, [("a", "b")], {"a": prefix(40), "b": prefix(30)}))
    terms = private_statistics(TinyTable(domain, np.zeros((1, 2), dtype=int)), budget).terms
    plain = Laplace() if budget.currency is BUDGETS[0].currency else Gaussian()
    found, direct = Hdmm().plan(terms, workload).predicted_error, plain.plan(terms, workload).predicted_error
    assert found is not None
    assert direct is not None
    assert found < direct / 7


def test_the_plan_tells_what_is_measured() -> None:
    private = private_statistics(TABLE, BUDGETS[1])
    plan = Hdmm().plan(private.terms, RANGES)
    release = Hdmm().run(private, RANGES, generator=GENERATOR)
    assert [step.stddev for step in plan.steps] == [measured.stddev for measured in release.measurements]
    assert sum(step.share for step in plan.steps) == pytest.approx(1.0)
    assert release.model is None
    assert all(isinstance(measured.queries, Products | SymmetricQueries) for measured in release.measurements)
    assert plan.rounds == 0


def test_progress_counts_the_measured_values() -> None:
    seen: list[tuple[int, int]] = []
    private = private_statistics(TABLE, BUDGETS[1])
    release = Hdmm().run(private, RANGES, generator=GENERATOR, progress=lambda done, total: seen.append((done, total)))
    total = sum(measured.values.size for measured in release.measurements)
    assert {end for _, end in seen} == {total}
    assert [done for done, _ in seen][-1] == total


GRAPHICAL = with_constants(Hdmm(reconstruction="graphical"), tolerance=1e-4, iterations=5000)


@pytest.mark.parametrize(("budget", "units"), [(BUDGETS[0], None), (BUDGETS[1], 50), (BUDGETS[2], None)], ids=str)
def test_with_little_noise_the_model_has_the_answers(budget: Budget, units: int | None) -> None:
    plenty = Budget(budget.currency, budget.amount * (60 if budget.currency is BUDGETS[0].currency else 1000))
    private = private_statistics(TABLE, plenty, units=units)
    release = GRAPHICAL.run(private, RANGES, generator=GENERATOR)
    exact = exact_answers(TABLE, RANGES.queries)
    least_squares = Hdmm().plan(private.terms, RANGES).predicted_error
    assert least_squares is not None
    assert least_squares < 0.6
    assert np.abs(release.answers.values - exact).mean() < 2 * least_squares
    assert release.model is not None
    assert release.model.total == pytest.approx(50, abs=1.0)
    assert not release.answers.measured


@every_budget
def test_the_model_is_fitted_to_what_least_squares_answers_from(budget: Budget) -> None:
    journal = MemoryJournal()
    answers = released(budget, journal=journal).answers
    private = private_statistics(TABLE, budget, journal=journal)
    release = Hdmm(reconstruction="graphical").run(private, RANGES, generator=GENERATOR)
    assert len(journal.answers) == 4
    assert release.answers.values.min() >= 0
    assert np.abs(release.answers.values - answers.values).mean() < 3 * answers.stddev.mean()
    ranges, prefixes = np.split(release.answers.values, [21 * 16])[0], release.answers.values[21 * 16 : 21 * 16 + 16]
    assert np.allclose(ranges.reshape(21, 16)[5], prefixes)  # Row 5 of all ranges of six values is all of them.


@every_budget
def test_ranges_are_measured_together_where_that_is_better(budget: Budget) -> None:
    """Half the squared error of the parts, in one call under Gaussian noise; also as it comes out."""
    terms = private_statistics(TABLE, budget).terms
    best, parts = (mechanism.plan(terms, RANGES) for mechanism in (Hdmm(), PARTS))
    assert best.predicted_error is not None
    assert parts.predicted_error is not None
    assert best.predicted_error < 0.9 * parts.predicted_error
    assert len(best.steps) == 1 or budget.currency is Currency.PURE
    both = [released(budget, mechanism=mechanism).answers for mechanism in (Hdmm(), PARTS)]
    weighted = [((cell_weights(RANGES) * answers.stddev) ** 2).sum() for answers in both]
    assert weighted[0] < 0.8 * weighted[1]
    found = both[0].values
    ranges, prefixes = found[: 21 * 16].reshape(21, 16), found[21 * 16 : 21 * 16 + 16]
    np.testing.assert_allclose(ranges[5], prefixes, atol=1e-6 * abs(prefixes).max())  # All of six values: they agree.


@pytest.mark.smoke(2)
@every_budget
@pytest.mark.parametrize("workload", [RANGES, MARGINALS], ids=["ranges", "marginals"])
def test_answers_without_negative_cells(budget: Budget, workload: Workload) -> None:
    """They are those of the same measured values, nearer to the truth, without error bars."""
    exact, off = exact_answers(TABLE, workload.queries), []
    for _ in range(8):
        journal = MemoryJournal()
        plain = released(budget, workload, Hdmm(), journal=journal)
        fixed = released(budget, workload, Hdmm(answers="nonnegative"), journal=journal)
        for one, other in zip(plain.measurements, fixed.measurements, strict=True):
            np.testing.assert_array_equal(one.values, other.values)
        assert fixed.answers.values.min() >= -1e-9
        assert np.isnan(fixed.answers.stddev).all()
        assert not fixed.answers.measured
        off.append([((release.answers.values - exact) ** 2).sum() for release in (plain, fixed)])
    unbiased, nonnegative = np.mean(off, axis=0)
    assert nonnegative < unbiased
    plan = Hdmm(answers="nonnegative").plan(private_statistics(TABLE, budget).terms, workload)
    assert plan.notes[-1] == "the expected error is that of the unbiased answers"


@pytest.mark.parametrize("budget", BUDGETS[1:], ids=["zcdp", "gdp"])
def test_the_largest_error_is_least_where_that_is_asked_for(budget: Budget) -> None:
    both = [released(budget, MARGINALS, Hdmm(loss=loss)).answers for loss in ("total", "largest")]
    weighted = [cell_weights(MARGINALS) * answers.stddev for answers in both]
    assert weighted[1].max() < 0.99 * weighted[0].max()
    assert (weighted[0] ** 2).sum() < 0.999 * (weighted[1] ** 2).sum()
    plan = Hdmm(loss="largest").plan(private_statistics(TABLE, budget).terms, MARGINALS)
    assert "the largest weighted error is at most 0.0" in plan.notes[0]


@pytest.mark.parametrize(
    ("mechanism", "budget", "workload", "message"),
    [
        (Hdmm(loss="largest"), BUDGETS[0], MARGINALS, "loss largest is for marginals under Gaussian noise"),
        (Hdmm(loss="largest"), BUDGETS[1], RANGES, "loss largest is for marginals under Gaussian noise"),
        (Hdmm(loss="largest", strategy="parts"), BUDGETS[1], MARGINALS, "loss largest, strategy parts; want"),
        (Hdmm("graphical", loss="largest"), BUDGETS[1], MARGINALS, "loss largest, .* reconstruction graphical; want"),
        (Hdmm("graphical", answers="nonnegative"), BUDGETS[1], MARGINALS, "nonnegative with .* graphical; want"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    mechanism: Hdmm, budget: Budget, workload: Workload, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        mechanism.plan(private_statistics(TABLE, budget).terms, workload)


FEW = Products(DOMAIN, (Product(("a",), (np.array([[1, 1, 0, 0, 0, 0]]),)),))
EMPTY = Products(DOMAIN, (Product(("a",), (np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]),)),))


@every_budget
@pytest.mark.parametrize(
    ("queries", "message"), [(FEW, "cannot give the number of rows"), (EMPTY, "a query asks for no value")]
)
def test_answers_that_no_table_can_be_made_of_are_refused_before_anything_is_measured(
    budget: Budget, queries: Products, message: str
) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), budget)
    with pytest.raises(ConfigError, match=message):
        Hdmm(answers="nonnegative").run(private, linear(queries), generator=GENERATOR)
    assert private.charges == ()
    known = private_statistics(TABLE, budget, units=50)
    found = Hdmm(answers="nonnegative").run(known, linear(FEW), generator=GENERATOR)
    assert found.answers.values.min() >= 0


def test_a_model_that_is_too_large_is_refused_before_anything_is_measured() -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGETS[1])
    with pytest.raises(DomainTooLargeError, match=r"the model of mechanism hdmm has 108 cells; want at most 10"):
        Hdmm("graphical", max_model_mb=0.8e-4).run(private, RANGES, generator=GENERATOR)
    assert private.charges == ()


def test_a_model_needs_to_know_its_rows() -> None:
    """Both ranges of two of three values cannot tell how many rows there are: x + y and y + z, not x + y + z."""
    domain = Domain.of({"a": 3})
    workload = linear(Products(domain, (Product(("a",), (np.array([[1, 1, 0], [0, 1, 1]]),)),)))
    table = TinyTable(domain, np.array([[0], [0], [1], [2]]))
    private = private_statistics(table, Budget.zcdp(10**9))
    with pytest.raises(ConfigError, match="cannot give the number of rows from these ranges; want"):
        GRAPHICAL.run(private, workload, generator=GENERATOR)
    assert private.charges == ()
    private = private_statistics(table, Budget.zcdp(10**9), units=4)
    release = GRAPHICAL.run(private, workload, generator=GENERATOR)
    assert np.allclose(release.answers.values, [3, 2], atol=0.01)


def test_a_model_without_a_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="mechanism.max_model_mb .* want"):
        Hdmm(max_model_mb=0.0).plan(private_statistics(TABLE, BUDGETS[1]).terms, RANGES)


def test_a_fit_stops_within_the_noise() -> None:
    """The noise of a measured value is worth half a unit of the tolerance."""
    assert 0 < HdmmConstants().tolerance < 0.5
    assert HdmmConstants().iterations >= 1


WIDE = Domain.of({"a": 5000, "b": 5000})
REFUSED = {
    "too many answers": (
        explicit(Domain.of({"a": 8192, "b": 8193}), {("a", "b"): 1.0}),
        "the workload has 67,117,056 cells; want at most 67,108,864",
    ),
    "a wide attribute": (
        linear(Products(WIDE, (Product(("a",), (np.ones((1, 5000), dtype=int),)),))),
        "mechanism hdmm: queries of several values of an attribute of 5,000 values; want at most",
    ),
    "conjunctions": (
        conjunctive(Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))),
        "mechanism hdmm answers marginals, prefixes and ranges of a table; want",
    ),
}


@pytest.mark.parametrize(("workload", "message"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_answer_is_refused_before_anything_is_measured(workload: Workload, message: str) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGETS[1])
    for call in (
        lambda: Hdmm().plan(private.terms, workload),
        lambda: Hdmm().run(private, workload, generator=GENERATOR),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    assert private.charges == ()


def test_a_strategy_of_more_values_than_can_be_drawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """p-Identity strategies have more queries than values: 64 answers here from 68 measured ones."""
    workload = linear(range_marginals(Domain.of({"a": 64}), [("a",)], {"a": prefix(64)}))
    private = private_statistics(NoStatistics(TABLE.contribution), BUDGETS[0])
    monkeypatch.setattr(parts, "LARGEST_ANSWERS", 66)
    with pytest.raises(DomainTooLargeError, match="the strategy of mechanism hdmm has 68 cells; want at most 66"):
        Hdmm().plan(private.terms, workload)
