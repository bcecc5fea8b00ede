"""A release that loses its journal, its ledger or its turn: one charge and one draw in the end.

Runs killed at each of their points are in tests/audit/kill_points.py; copies of ledgers and journals, and locks that do
not lock, in test_second_draws.py.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.local import LocalEngine
from tests.support.releases import World, table_world


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


def test_a_journal_that_was_lost_is_an_integrity_error(table: World) -> None:
    assert table.run()[0] == 0
    (table.folder / "out" / "people").rename(table.folder / "gone")
    journal = table.folder / "out" / ".marquee" / table.job().release_id / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    for kept in (lines[:-1], []):
        journal.write_bytes(b"".join(kept))
        code, _, err = table.run()
        assert code == 7
        assert "journal.jsonl lacks answers" in err


def test_runs_on_two_machines_that_share_a_ledger_publish_one_draw(
    table: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduce, here, elsewhere = LocalEngine.reduce, table.folder / "out", table.folder / "of the other machine"
    outcomes: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        """While this run counts, another machine runs the same release to its end."""
        monkeypatch.setattr(LocalEngine, "reduce", reduce)
        here.rename(table.folder / "kept")
        outcomes.append(table.run()[0])
        here.rename(elsewhere)
        (table.folder / "kept").rename(here)
        return reduce(*arguments)

    monkeypatch.setattr(LocalEngine, "reduce", interrupted)
    code, _, err = table.run()
    assert (outcomes, code) == ([0], 7)
    assert "another run" in err
    assert not (here / "people").exists()
    assert table.run()[0] == 7, "what this machine drew is never used"
    assert (elsewhere / "people" / "_SUCCESS").exists()
    assert table.charges() == 1


def test_a_release_that_the_ledger_lost_is_not_taken_for_published(
    table: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def late(_: Path) -> Iterator[None]:
        with closing(sqlite3.connect(table.folder / "marquee.db")) as ledger, ledger:
            ledger.execute("DELETE FROM releases")
        yield

    monkeypatch.setattr("jobs.release.folders.only_run", late)
    code, out, err = table.run()
    assert (code, out) == (7, "")
    assert "no longer in the ledger" in err


@pytest.mark.parametrize(("place", "value", "says"), [
    ("output.path", "people.schema.yaml/out", "cannot be created (Not a directory)"),
    ("dataset.path", ".", "is inside the folder of the data"),
    ("dataset.path", "./**/*.parquet", "is inside the folder of the data"),
    ("dataset.path", "*/*/*.parquet", "is inside the folder of the data"),
    ("dataset.path", "local://FOLDER", "is inside the folder of the data"),
    ("dataset.path", "file://FOLDER/*/*/*.parquet", "is inside the folder of the data"),
])  # fmt: skip
def test_an_output_that_cannot_be_is_found_before_anything_is_charged(
    table: World, place: str, value: str, says: str
) -> None:
    table.set(place, value.replace("FOLDER", str(table.folder)))
    code, _, err = table.run()
    assert (code, says in err) == (2, True), err
    assert table.charges() == 0


def test_one_release_runs_once_at_a_time(table: World) -> None:
    folder = table.folder / "out" / ".marquee" / table.job().release_id
    folder.mkdir(parents=True)
    with open(folder / "lock", "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, _, err = table.run()
    assert code == 5
    assert "try again" in err
    assert table.charges() == 0
    assert table.run()[0] == 0
