"""The laws that every mechanism keeps, one function each. Each checks a finished run and raises AssertionError.

``dpcore.testing.contract`` calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from dpcore.kernel.budget import Budget
from dpcore.kernel.conversion import epsilon_of
from dpcore.queries import Itemsets
from dpcore.testing.cases import Case, Run
from dpcore.testing.doubles import NoStatistics
from dpcore.testing.tiny_data import DELTA, EPSILON

_ROUNDING_OF_SHARES: Final = Fraction(1, 2**30)  # A remaining share below this counts as spent.
_SAMPLED_ROWS: Final = 30  # Synthetic rows that are compared between a run and its replay.


def it_spends_its_budget_and_never_more(case: Case, run: Run) -> None:
    """The ledger reserves the whole budget. Charges stay within it, and spend it if the contract says so."""
    charged = sum((charge.amount for charge in run.private.charges), Fraction(0))
    _require(run.ledger.spent == case.budget.amount, "the ledger reserved another amount than the budget")
    _require(charged <= case.budget.amount, "charges exceed the budget")
    if case.contract.spends_all:
        _require(run.private.remaining_share < _ROUNDING_OF_SHARES, "a part of the budget is not spent")


def its_charges_come_to_the_promised_epsilon(case: Case, run: Run) -> None:
    """The charges imply at most the target epsilon, and nearly all of it if the contract says so."""
    charged = sum((charge.amount for charge in run.private.charges), Fraction(0))
    epsilon = epsilon_of(Budget(case.budget.currency, charged), DELTA)
    _require(epsilon <= EPSILON, f"charges come to epsilon {epsilon}, more than {EPSILON}")
    _require(epsilon >= 0.999 * EPSILON or not case.contract.spends_all, f"charges come to epsilon {epsilon} alone")


def its_answers_have_the_shape_of_the_workload(case: Case, run: Run) -> None:
    """The answers are finite float64, and lie within their intervals where a standard deviation is known.

    A mechanism that finds itemsets names those that it has found as the workload.
    """
    answers, size = run.release.answers, run.release.workload.queries.size
    for name in ("values", "stddev", "lower", "upper"):
        values = getattr(answers, name)
        _require(values.shape == (size,), f"answers.{name} has shape {values.shape}; want ({size},)")
        _require(values.dtype == np.float64, f"answers.{name} is {values.dtype}; want float64")
    _require(bool(np.isfinite(answers.values).all()), "an answer is not finite")
    if isinstance(case.data.workload.requested, Itemsets):
        _require(run.release.itemsets is not None, "the release has no itemsets")
    else:
        _require(run.release.workload is case.data.workload, "the release names another workload")
    known = ~np.isnan(answers.stddev)
    inside = (answers.lower <= answers.values) & (answers.values <= answers.upper)
    _require(bool(inside[known].all()), "an answer lies outside its interval")


def the_events_of_its_plan_are_the_calls_of_its_run(case: Case, run: Run) -> None:
    """The plan lists events with the cost of the run if all calls are fixed in advance, and otherwise lists none."""
    events = case.plan(run.private).events
    _require(
        bool(events) == case.contract.knows_its_calls(case.public),
        "the plan must list events if and only if all calls are fixed in advance",
    )
    if events:
        charged = sum(charge.amount for charge in run.private.charges)
        _require(sum(event.charged for event in events) == charged, "planned events have another cost than the run")


def its_plan_tells_every_call_and_its_share(case: Case, run: Run) -> None:
    """Planned shares sum to at most 1, and planned calls and standard deviations are those of the run."""
    plan = case.plan(run.private)
    _require(sum(step.share for step in plan.steps) <= 1 + 1e-9, "planned shares exceed the budget")
    if case.contract.knows_its_calls(case.public):
        calls = sum(step.calls for step in plan.steps)
        _require(calls == len(run.private.charges), f"{calls} calls are planned, {len(run.private.charges)} are made")
    planned = sorted({round(step.stddev, 9) for step in plan.steps if step.stddev is not None})
    measured = sorted({round(measurement.stddev, 9) for measurement in run.release.measurements})
    if case.contract.scales_follow_answers:
        _require(set(planned) <= set(measured), f"noise {planned} is planned, noise {measured} is used")
    elif all(step.calls == 1 or step.stddev is None for step in plan.steps):
        _require(planned == measured, f"noise {planned} is planned, noise {measured} is used")
    _require(plan.memory_bytes > 0, "the plan has no estimate of the memory")


def its_plan_needs_no_data(case: Case, run: Run) -> None:
    """The plan follows from public facts alone."""
    private = case.private(NoStatistics(case.data.statistics.contribution))
    _require(bool(case.plan(private).steps), "the plan has no steps")


def the_answers_of_a_model_are_those_of_the_model(case: Case, run: Run) -> None:
    """Answers are either measured or those of the model, and the release says which.

    Only where the contract says so, measured answers stand beside a model.
    """
    release = run.release
    have_own = case.contract.own_answers and release.answers.measured
    _require(release.answers.measured == (have_own or release.model is None), "answers.measured does not fit the model")
    if release.model is not None and not have_own:
        answers = release.model.answer(case.data.workload.queries)
        _require(np.allclose(release.answers.values, answers), "answers differ from those of the model")
    if release.model is not None:
        _require(release.model.total >= 1 - 1e-9, "the model has no rows")


def everything_it_releases_comes_from_the_journal(case: Case, run: Run) -> None:
    """A replay over a neighbouring dataset is identical: all knowledge of the data comes from the journal."""
    private = case.private(case.data.neighbour, journal=run.journal)
    replayed, release = case.run(private), run.release
    _require(len(run.journal.answers) == len(run.private.charges), "calls and journal differ in number")
    _require(run.private.charges == private.charges, "a replay over a neighbour's data has other charges")
    same = np.array_equal(release.answers.values, replayed.answers.values)
    _require(same, "a replay over a neighbour's data has other answers")
    same = np.array_equal(release.answers.stddev, replayed.answers.stddev, equal_nan=True)
    _require(same, "a replay over a neighbour's data has other standard deviations")
    _require(len(release.measurements) == len(replayed.measurements), "a replay measures more or less")
    for first, second in zip(release.measurements, replayed.measurements, strict=True):
        _require(np.array_equal(first.values, second.values), "a replay has another measurement")
        _require((first.noise, first.scale) == (second.noise, second.scale), "a replay has other noise")
    if release.model is not None and replayed.model is not None:
        samples = (model.sample(_SAMPLED_ROWS, np.random.default_rng(5)) for model in (release.model, replayed.model))
        for first, second in zip(*(vars(rows).values() for rows in samples), strict=True):
            same = np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second
            _require(same, "the model of a replay gives other synthetic rows")


def its_progress_ends_where_it_says(case: Case, run: Run) -> None:
    """Progress increases with every report, and the last report is complete."""
    reported = [done for done, _ in run.progress]
    _require(reported == sorted(set(reported)), "progress does not grow")
    _require(bool(run.progress) and run.progress[-1][0] == run.progress[-1][1], "progress does not end")


LAWS: Final[tuple[Callable[[Case, Run], None], ...]] = (
    it_spends_its_budget_and_never_more,
    its_charges_come_to_the_promised_epsilon,
    its_answers_have_the_shape_of_the_workload,
    the_events_of_its_plan_are_the_calls_of_its_run,
    its_plan_tells_every_call_and_its_share,
    its_plan_needs_no_data,
    the_answers_of_a_model_are_those_of_the_model,
    everything_it_releases_comes_from_the_journal,
    its_progress_ends_where_it_says,
)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
