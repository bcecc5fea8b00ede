"""The laws of every mechanism: one row a mechanism, on every workload, privacy unit and currency."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpcore.errors import ConfigError
from dpcore.exact_statistics import Shape, Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import epsilon_of
from dpcore.kernel.memory import MemoryJournal, MemoryLedger
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Release
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Conjunctions
from tests.support.mechanism_rows import (
    BUDGETS,
    CONJUNCTIONS,
    DATA,
    DELTA,
    EPSILON,
    ROWS,
    Data,
    Row,
)
from tests.support.private import ADD_REMOVE, REPLACE, NoStatistics, private_statistics


@dataclass(frozen=True)
class Case:
    """One mechanism on one kind of data under one privacy unit and currency."""

    row: Row
    data: Data
    budget: Budget
    replaced: bool
    public: bool

    def private(
        self,
        statistics: Statistics | None = None,
        journal: MemoryJournal | None = None,
        ledger: MemoryLedger | None = None,
    ) -> PrivateStatistics:
        found = self.data.statistics if statistics is None else statistics
        units = 40 // (found.contribution.bound if found.contribution.shape is Shape.TABLE else 1)
        return private_statistics(
            found,
            self.budget,
            neighbours=REPLACE if self.replaced else ADD_REMOVE,
            units=units if self.public else None,
            journal=journal,
            ledger=ledger,
        )

    def run(self, private: PrivateStatistics, seed: int = 0) -> Release:
        return self.row.mechanism.run(private, self.data.workload, generator=np.random.default_rng(seed))

    def plan(self, private: PrivateStatistics) -> Plan:
        return self.row.mechanism.plan(private.terms, self.data.workload)

    def done(self) -> Done:
        """One run that the laws look at: it is made once."""
        if id(self) not in _DONE:
            ledger, journal, seen = MemoryLedger(self.budget), MemoryJournal(), list[tuple[int, int]]()
            private = self.private(journal=journal, ledger=ledger)
            release = self.row.mechanism.run(
                private,
                self.data.workload,
                generator=np.random.default_rng(0),
                progress=lambda done, total: seen.append((done, total)),
            )
            _DONE[id(self)] = Done(private, ledger, journal, release, seen)
        return _DONE[id(self)]


@dataclass(frozen=True)
class Done:
    """A finished run, with what it wrote and the progress it reported."""

    private: PrivateStatistics
    ledger: MemoryLedger
    journal: MemoryJournal
    release: Release
    progress: list[tuple[int, int]]


_DONE: dict[int, Done] = {}

UNITS = {"add/remove, private units": (False, False), "add/remove": (False, True), "replace": (True, True)}
CASES, REFUSED = [], []
for row, (kind, data), budget, (unit, (replaced, public)) in product(ROWS, DATA.items(), BUDGETS, UNITS.items()):
    if not row.is_asked(kind):
        continue
    proved = kind in row.data and budget in row.budgets
    name = f"{type(row.mechanism).__name__}-{kind}-{budget.currency.name}-{unit}"
    (CASES if proved else REFUSED).append(pytest.param(Case(row, data, budget, replaced, public), id=name))
every_case = pytest.mark.parametrize("case", CASES)


def test_every_mechanism_that_a_config_can_name_has_a_row() -> None:
    assert set(MECHANISMS.values()) <= {type(row.mechanism) for row in ROWS}


@every_case
def test_it_spends_its_budget_and_answers_in_the_shape_of_the_workload(case: Case) -> None:
    private, release = case.done().private, case.done().release
    assert case.done().ledger.spent == case.budget.amount
    assert sum(charge.amount for charge in private.charges) <= case.budget.amount
    if case.row.exact:
        assert private.remaining_share < Fraction(1, 2**30)
    answers = release.answers
    for values in (answers.values, answers.stddev, answers.lower, answers.upper):
        assert values.shape == (case.data.workload.queries.size,)
        assert values.dtype == np.float64
    assert np.isfinite(answers.values).all()
    assert release.workload is case.data.workload
    known = ~np.isnan(answers.stddev)
    assert (answers.lower[known] <= answers.values[known]).all()
    assert (answers.values[known] <= answers.upper[known]).all()


@every_case
def test_what_it_was_charged_is_the_target_and_never_more(case: Case) -> None:
    """Its noise, rounds and samples use the target up; only whole rounds may leave something."""
    private = case.done().private
    spent = Budget(case.budget.currency, sum((charge.amount for charge in private.charges), Fraction(0)))
    found = epsilon_of(spent, DELTA)
    assert found <= EPSILON
    assert found >= 0.999 * EPSILON or not case.row.exact


@every_case
def test_the_events_of_a_plan_are_the_calls_of_a_run(case: Case) -> None:
    """None where an answer decides how many calls follow; else all of them, with their whole cost."""
    private = case.done().private
    events = case.plan(private).events
    assert bool(events) == case.row.knows_its_calls(case.public)
    if events:
        assert sum(event.charged for event in events) == sum(charge.amount for charge in private.charges)


@every_case
def test_answers_of_a_model_are_those_of_the_model(case: Case) -> None:
    release = case.done().release
    assert release.answers.measured == (release.model is None)
    if release.model is not None:
        assert np.allclose(release.answers.values, release.model.answer(case.data.workload.queries))
        assert release.model.total >= 1 - 1e-9


@every_case
def test_the_plan_tells_every_call_and_its_share(case: Case) -> None:
    private, release = case.done().private, case.done().release
    plan = case.plan(private)
    assert sum(step.share for step in plan.steps) <= 1 + 1e-9
    if case.row.knows_its_calls(case.public):
        assert sum(step.calls for step in plan.steps) == len(private.charges)
    planned = sorted({round(step.stddev, 9) for step in plan.steps if step.stddev is not None})
    if case.row.scales_follow_answers:
        assert set(planned) <= {round(measured.stddev, 9) for measured in release.measurements}
    elif all(step.calls == 1 or step.stddev is None for step in plan.steps):
        assert sorted({round(measured.stddev, 9) for measured in release.measurements}) == planned
    assert plan.memory_bytes > 0


@every_case
def test_everything_it_releases_comes_from_the_journal(case: Case) -> None:
    """Replayed over a neighbour's data the run is the same to the last bit: nothing passes the kernel by."""
    first, release, journal = case.done().private, case.done().release, case.done().journal
    again = case.private(case.data.neighbour, journal=journal)
    replayed = case.run(again)
    assert len(journal.answers) == len(first.charges) == len(again.charges)
    assert first.charges == again.charges
    assert np.array_equal(release.answers.values, replayed.answers.values)
    assert np.array_equal(release.answers.stddev, replayed.answers.stddev, equal_nan=True)
    assert len(release.measurements) == len(replayed.measurements)
    for one, other in zip(release.measurements, replayed.measurements, strict=True):
        assert np.array_equal(one.values, other.values)
        assert (one.noise, one.scale) == (other.noise, other.scale)
    if release.model is not None and replayed.model is not None:
        rows, others = (m.sample(30, np.random.default_rng(5)) for m in (release.model, replayed.model))
        assert all(
            np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
            for one, other in zip(vars(rows).values(), vars(others).values(), strict=True)
        )


@every_case
def test_the_plan_needs_no_data(case: Case) -> None:
    assert case.plan(case.private(NoStatistics(case.data.statistics.contribution))).steps


@every_case
def test_progress_ends_where_it_says(case: Case) -> None:
    seen = case.done().progress
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_proof_is_refused_before_anything_is_measured(case: Case) -> None:
    private = case.private(NoStatistics(case.data.statistics.contribution))
    for call in (case.plan, case.run):
        with pytest.raises(ConfigError, match=r"want|choose"):
            call(private)
    assert private.charges == ()


OF_A_TABLE = [
    (row, kind) for row, kind in product(ROWS, ("marginals", "products", "marginals of bits")) if kind in row.data
]


@pytest.mark.parametrize(("row", "kind"), OF_A_TABLE, ids=[f"{row.mechanism!r}-{kind}" for row, kind in OF_A_TABLE])
def test_marginals_of_baskets_are_refused_before_anything_is_measured(row: Row, kind: str) -> None:
    private = private_statistics(NoStatistics(DATA["conjunctions of baskets"].statistics.contribution), row.budgets[0])
    with pytest.raises(ConfigError, match="marginals were asked of baskets"):
        row.mechanism.run(private, DATA[kind].workload, generator=np.random.default_rng(0))
    assert private.charges == ()


def test_the_cases_cover_all_currencies_neighbours_and_units() -> None:
    found = {(case.budget.currency, case.replaced, case.public) for (case,) in (param.values for param in CASES)}
    assert found == set(product(Currency, (False,), (False, True))) | set(product(Currency, (True,), (True,)))
    assert all(isinstance(DATA[kind].workload.queries, Conjunctions) for kind in CONJUNCTIONS)
