"""Continual counts: the predicted error, and one release for each step that is the same as one of all steps."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement
from dpcore.mechanisms.continual.continual import Continual
from dpcore.mechanisms.continual.series import Series
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity, of_width, prefix, range_marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, linear

STEPS = 6
DOMAIN = Domain.of({"cell": 3, "day": STEPS, "kind": 2})
CODES = np.random.default_rng(5).integers(0, DOMAIN.sizes, (200, 3))
WORKLOAD = Workload(
    Products(
        DOMAIN,
        (
            Product(("cell", "day"), (identity(3), prefix(STEPS))),
            Product(("day",), (identity(STEPS),)),
            Product(("cell", "day", "kind"), (prefix(3), of_width(STEPS, STEPS, 3), identity(2))),
            Product(("cell",), (identity(3),)),
        ),
    ),
    np.array([1.0, 2.0, 0.5, 1.0]),
)
BUDGETS = [Budget.pure(1), Budget.zcdp(Fraction(1, 2)), Budget.gdp(1)]
GENERATOR = np.random.default_rng(0)
CHOICES = ("best", "daily", "tree", "square_root")


def table(last: int = STEPS - 1) -> TinyTable:
    """The rows up to a step."""
    return TinyTable(DOMAIN, CODES[CODES[:, 1] <= last])


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("choice", CHOICES)
def test_the_error_is_the_predicted_one(budget: Budget, choice: str) -> None:
    mechanism, exact = Continual("day", choice), exact_answers(table(), WORKLOAD.queries)  # type: ignore[arg-type]
    squares, absolute, covered, runs = [], [], [], 60
    for _ in range(runs):
        private = private_statistics(table(), budget)
        answers = mechanism.run(private, WORKLOAD, generator=GENERATOR).answers
        error = answers.values - exact
        squares.append((error / answers.stddev) ** 2)
        absolute.append(np.abs(error).mean())
        covered.append((answers.lower <= exact) & (exact <= answers.upper))
        assert private.remaining_share == 0
    assert np.mean(squares) == pytest.approx(1, rel=0.15)
    plan = mechanism.plan(private.terms, WORKLOAD)
    assert np.mean(absolute) == pytest.approx(plan.predicted_error, rel=0.15)
    assert np.mean(covered) > 0.93
    assert len(squares[0]) == WORKLOAD.queries.size


def parts_of(series: Series, whole: Measurement) -> list[Measurement]:
    """A measurement of all steps, cut into the measurements of each step."""
    (term,) = series.measured.terms
    axis = term.clique.index("day")
    values = whole.values.reshape(term.shape)
    parts = []
    for step in range(STEPS):
        rows = series.plan.strategy.rows_of(step)
        matrices = list(term.matrices)
        matrices[axis] = matrices[axis][rows.start : rows.stop]
        queries = Products(DOMAIN, (Product(term.clique, tuple(matrices)),), series.measured.denominator)
        cut = np.take(values, range(rows.start, rows.stop), axis=axis).ravel()
        parts.append(Measurement(queries, cut, whole.noise, whole.scale))
    return parts


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("choice", CHOICES)
def test_steps_answer_together_what_one_release_of_all_steps_answers(
    budget: Budget, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same measured values, bit for bit up to rounding, and every query at the step at which it ends."""
    mechanism = Continual("day", choice)  # type: ignore[arg-type]
    private = private_statistics(table(), budget)
    release = mechanism.run(private, WORKLOAD, generator=GENERATOR)
    series = Series.of(private.terms, WORKLOAD, "day", choice)  # type: ignore[arg-type]
    parts = parts_of(series, release.measurements[0])
    answered = 0
    for step in range(STEPS):
        monkeypatch.setattr(Continual, "measure_step", lambda self, *_: parts[self.step])
        at_step = mechanism.at_step(step, tuple(parts[:step]))
        some = at_step.run(private_statistics(table(step), budget), WORKLOAD, generator=GENERATOR)
        expected = whole_answers_at(release.answers.values, step)
        np.testing.assert_allclose(some.answers.values, expected, rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(some.answers.stddev, whole_answers_at(release.answers.stddev, step), rtol=1e-9)
        exact = exact_answers(table(step), some.workload.queries)
        np.testing.assert_array_equal(exact, whole_answers_at(exact_answers(table(), WORKLOAD.queries), step))
        answered += some.workload.queries.size
    assert answered == WORKLOAD.queries.size


def whole_answers_at(values: np.ndarray, step: int) -> np.ndarray:
    """The answers of the workload that end at a step, found from the matrices of its terms."""
    found, start = [], 0
    assert isinstance(WORKLOAD.queries, Products)
    for term in WORKLOAD.queries.terms:
        block = values[start : start + term.size].reshape(term.shape)
        start += term.size
        if "day" not in term.clique:
            found.append(block.ravel() if step == STEPS - 1 else block[:0].ravel())
            continue
        axis = term.clique.index("day")
        ends = [int(np.flatnonzero(row)[-1]) for row in term.matrices[axis]]
        found.append(np.compress([end == step for end in ends], block, axis=axis).ravel())
    return np.concatenate(found)


def test_the_steps_read_the_data_so_far_alone() -> None:
    """A step measures the same exact answers whether or not later rows are there already."""
    budget = Budget.zcdp(10**12)
    for step in range(STEPS):
        at_step = Continual("day").at_step(step)
        now, later = (
            at_step.measure_step(private_statistics(table(last), budget), WORKLOAD) for last in (step, STEPS - 1)
        )
        np.testing.assert_allclose(now.values, later.values, atol=1e-3)


def test_a_step_needs_all_earlier_ones_of_its_own_series() -> None:
    budget = Budget.zcdp(1)
    measured = [
        Continual("day").at_step(s).measure_step(private_statistics(table(s), budget), WORKLOAD) for s in (0, 1)
    ]
    private = private_statistics(table(2), budget)
    with pytest.raises(ValueError, match="1 earlier measurements; want those of 2"):
        Continual("day").at_step(2, tuple(measured[:1])).run(private, WORKLOAD, generator=GENERATOR)
    assert not private.charges
    with pytest.raises(ValueError, match="other rows or noise"):
        Continual("day").at_step(2, tuple(measured[::-1])).run(private, WORKLOAD, generator=GENERATOR)
    with pytest.raises(ValueError, match="want one of at_step"):
        Continual("day").measure_step(private, WORKLOAD)


def test_the_plan_of_a_step_is_that_of_its_answers() -> None:
    private = private_statistics(table(), Budget.zcdp(1))
    errors = [Continual("day").at_step(step).plan(private.terms, WORKLOAD).predicted_error for step in range(STEPS)]
    whole = Continual("day").plan(private.terms, WORKLOAD)
    sizes = [whole_answers_at(np.zeros(WORKLOAD.queries.size), step).size for step in range(STEPS)]
    assert np.average(np.array(errors, dtype=float), weights=sizes) == pytest.approx(whole.predicted_error)
    (third,) = Continual("day").at_step(2).plan(private.terms, WORKLOAD).steps
    assert "step 3 of 6 of a series" in third.label
    assert "strategy optimum over 6 steps of day" in whole.notes[0]


def test_more_steps_cost_little_in_running_totals() -> None:
    errors = []
    for steps in (8, 16, 32):
        workload = linear(range_marginals(Domain.of({"day": steps}), [("day",)], {"day": prefix(steps)}))
        terms = private_statistics(table(), Budget.zcdp(1)).terms
        errors.append(Continual("day").plan(terms, workload).predicted_error)
    assert all(later < 1.3 * earlier for earlier, later in pairwise(map(float, errors)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mechanism", "workload", "message"),
    [
        (Continual("day"), all_k_way(DOMAIN, 1), "want workload.products"),
        (Continual("month"), WORKLOAD, "'month', which no query"),
        (Continual("day").at_step(6), WORKLOAD, "step 7 of a series of 6 steps; want 1 to 6"),
        (
            Continual("day").at_step(1),
            linear(range_marginals(DOMAIN, [("day",)], {"day": of_width(STEPS, STEPS, 3)})),
            "no query of the workload ends at step 2",
        ),
        (
            Continual("day"),
            linear(range_marginals(Domain.of({"day": 1500}), [("day",)], {"day": prefix(1500)})),
            "a series of 1,500 steps; want 1 to 1,024",
        ),
    ],
)
def test_what_is_no_series_is_refused(mechanism: Continual, workload: Workload, message: str) -> None:
    private = private_statistics(table(), Budget.zcdp(1))
    for call in (mechanism.plan, lambda _, asked: mechanism.run(private, asked, generator=GENERATOR)):
        with pytest.raises(ConfigError, match=message):
            call(private.terms, workload)
    assert not private.charges
