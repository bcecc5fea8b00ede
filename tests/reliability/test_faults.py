"""A few faults at a few points, and runs that break their promise, which each part of the verdict must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from jobs import exit_codes
from jobs.ledger import SqlLedger
from jobs.release import input as data
from tests.audit.section import Size
from tests.reliability import data_faults, engine_faults, faults, other_faults
from tests.reliability.failing_store import FAILURES, Trouble
from tests.reliability.injections import STAGES, arm_action
from tests.reliability.scene import KILLED
from tests.reliability.trials import Place
from tests.support.broken_promises import never_charged, written_in_place
from tests.support.faults import arm, point
from tests.support.ledgers import past_the_ledger


def test_a_few_faults_are_survived(place: Place) -> None:
    for row in faults.rows(place, Size.FAST):
        assert row.passed, row.cells
        assert row.cells["injected"]


def charged_twice(url: str) -> None:
    """As if a retry were a release of its own."""
    reserve = SqlLedger.reserve

    def twice(self: SqlLedger, *given: Any) -> None:
        reserve(self, *given)
        columns = "dataset, consumer, amount, spent, consumer_spent, window_start, charged"
        past_the_ledger(
            url, f"INSERT INTO charges (release_id, {columns}) SELECT '{'b' * 64}', {columns} FROM charges LIMIT 1"
        )

    SqlLedger.reserve = twice  # type: ignore[method-assign]


@pytest.mark.parametrize(("plant", "name", "kind"), [
    pytest.param(never_charged, "first draw, not stored", "lost"),
    pytest.param(written_in_place, "answers written", "wrong", marks=pytest.mark.full),
])  # fmt: skip
def test_a_killed_run_that_broke_its_promise_is_noticed(
    place: Place, plant: Callable[[], None], name: str, kind: str
) -> None:
    scene = place.scene()
    ended = place.drivers.run(scene.config, plant, partial(arm, point(name), scene.tally))
    trial = place.judged(scene, [ended], [KILLED])
    assert getattr(trial, kind), trial


@pytest.mark.full
def test_a_second_charge_is_noticed(place: Place) -> None:
    scene = place.scene()
    trial = place.disturb(scene, [partial(charged_twice, scene.ledger)], (0,), lambda: None)
    assert trial.overspent, trial


def unchecked() -> None:
    """Counts of files that were replaced are used."""
    data._FileChecks.reduce = lambda checks, source, aggregator: checks.engine.reduce(source, aggregator)


def speechless() -> None:
    """A failure is described in no sentence."""
    exit_codes.to_stderr = lambda *_: None  # type: ignore[assignment]


def test_counts_of_replaced_files_would_be_noticed(place: Place) -> None:
    trial = data_faults.replaced(place, 2, unchecked)
    assert 0 in trial.codes
    assert not trial.survived


@pytest.mark.full
def test_a_failure_without_a_sentence_is_noticed(place: Place) -> None:
    trial = place.disturb(place.scene(), [speechless, partial(arm_action, STAGES["staged"][0], _stop)], (70,), _nothing)
    assert [problem[:4] for problem in trial.wrong] == ["said"], trial


def _stop() -> None:
    other_faults.fail(MemoryError)


def _nothing() -> None:
    """There is nothing to heal."""


@pytest.mark.parametrize("kind", ["lost", "overspent", "wrong"])
def test_each_kind_of_problem_fails_its_row(kind: str) -> None:
    trial = faults.Trial(codes=[0])
    assert faults.Tally([trial]).row("", "", "").passed
    assert not faults.Tally([trial, replace(trial, **{kind: ["problem"]})]).row("", "", "").passed
    assert not faults.Tally([]).row("", "", "").passed


@pytest.mark.full
@pytest.mark.parametrize("name", FAILURES)
def test_a_store_that_fails_is_survived(place: Place, name: str) -> None:
    for first in (1, 9):
        trial = data_faults.store_fails(place, Trouble(name, first))
        assert trial.survived, trial


TESTED = (
    "an executor", "a worker machine after the shuffle", "a Python worker of local Spark", "a worker process of Beam",
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("death", [
    pytest.param(death, id=death.name, marks=pytest.mark.beam if "beam" in death.module else pytest.mark.spark)
    for death in engine_faults.DEATHS if death.name in TESTED
])  # fmt: skip
def test_an_engine_that_loses_a_process_ends_and_the_release_goes_on(place: Place, death: engine_faults.Death) -> None:
    trial = engine_faults.killed(place, death)
    assert trial.survived, trial
    assert trial.codes == list(death.codes)


@pytest.mark.full
@pytest.mark.beam
def test_a_death_that_did_not_happen_is_noticed(place: Place) -> None:
    (death,) = [death for death in engine_faults.DEATHS if death.name == "a worker process of Beam"]
    trial = engine_faults.killed(place, replace(death, times=0))
    assert "nothing was killed" in trial.wrong
