"""A run killed at a few of its points; the audit kills it at all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select

from jobs.ledger import SqlLedger
from jobs.ledger.tables import CHARGES, RELEASES
from jobs.release import run
from jobs.release.journal import Journal
from tests.audit import kill_points
from tests.audit.kill_points import REFUSALS, Case, Refusal
from tests.audit.section import Size
from tests.support.broken_promises import never_charged, written_in_place
from tests.support.faults import POINTS, point

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


@pytest.mark.smoke(1)
@pytest.mark.parametrize("case", list(kill_points.cases(Size.FAST)), ids=lambda case: f"{case.shape}, {case.name}")
def test_a_killed_run_goes_on(case: Case) -> None:
    row = kill_points.killed_and_resumed(case)
    assert row.passed, row.cells


@pytest.mark.parametrize("name", ["first draw, not stored", "first answer, synced, unknown to the ledger"])
def test_items_are_discovered_once(name: str) -> None:
    row = kill_points.killed_and_resumed(Case((point(name),), "local", "discovered"))
    assert row.passed, row.cells


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["engine has read one file", "4th draw, not stored"])
def test_a_killed_driver_takes_spark_with_it_and_goes_on(name: str) -> None:
    row = kill_points.killed_and_resumed(Case((point(name, "spark"),), "spark", "baskets"))
    assert row.passed, row.cells


@pytest.mark.parametrize("refusal", [REFUSALS[0], REFUSALS[2]], ids=lambda refusal: refusal.name)
def test_what_has_changed_since_is_refused_without_a_draw(refusal: Refusal) -> None:
    row = kill_points.refused(refusal, "table")
    assert row.passed, row.cells


def test_there_are_at_least_twenty_points_on_every_engine() -> None:
    for engine in kill_points.ENGINES:
        names = [one.name for one in POINTS if one.engine in (None, engine)]
        assert len(set(names)) == len(names) >= 20


def stored_at_the_end() -> None:
    """Answers are used before they are on disk."""

    def remember(self: Journal, index: int, request: str, answer: np.ndarray) -> None:
        assert index >= 0

    Journal.record = remember  # type: ignore[method-assign]


@pytest.mark.parametrize(("plant", "name"), [
    (never_charged, "first draw, not stored"),
    (stored_at_the_end, "4th draw, not stored"),
    (written_in_place, "synthetic rows half written"),
])  # fmt: skip
def test_a_run_that_breaks_its_promise_is_caught(plant: Callable[[], None], name: str) -> None:
    planted = f"tests.audit.test_kill_points:{plant.__name__}"
    row = kill_points.killed_and_resumed(Case((point(name),), "local", "table"), planted)
    assert not row.passed
    assert row.cells["drawn"] or row.cells["output"] != "none", "the planted run came to its point"


def forgetful(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "recall", lambda *_: None)
    patch.setattr(Journal, "record", lambda *_: None)


def paying_again(patch: pytest.MonkeyPatch) -> None:
    reserve = SqlLedger.reserve

    def twice(self: SqlLedger, release_id: str, *given: Any) -> None:
        """As if a retry were a release of its own."""
        reserve(self, release_id, *given)
        with self._database.transaction() as connection:
            for table in (RELEASES, CHARGES):
                row = dict(connection.execute(select(table)).one()._mapping) | {"release_id": release_id[::-1]}
                row.pop("number", None)
                connection.execute(insert(table).values(row))

    patch.setattr(SqlLedger, "reserve", twice)


def seeded_by_chance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run, "_generator", lambda *_: np.random.default_rng())


@pytest.mark.parametrize(("plant", "seen", "value"), [
    (forgetful, "drawn then", 1 + 4 + 2 * 3),  # Every answer: the total, one-way marginals, three rounds.
    (paying_again, "charges", 2),
    (seeded_by_chance, "bytes equal", False),
])  # fmt: skip
def test_a_resume_that_breaks_its_promise_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], seen: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_points.answers_of("table")  # Counted by the real code.
    plant(monkeypatch)
    row = kill_points.killed_and_resumed(Case((point("4th answer, known to the ledger"),), "local", "table"))
    assert not row.passed
    assert row.cells[seen] == value
