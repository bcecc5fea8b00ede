"""Everything that could make a retry draw noise a second time: old copies, two ledgers, locks without effect."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import LedgerUnavailableError
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.release import publish
from jobs.release.journal import Journal
from tests.support.datasets import ROOT
from tests.support.faults import drawn, kill_at, noted_draws, point
from tests.support.releases import LEDGER, World, table_world

ANSWERS = 1 + 4 + 2 * 3  # MWEM's total, four one-way marginals, and a selection and a measurement in each round.
KNOWN = "4th answer, known to the ledger"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


def killed(table: World, name: str = KNOWN) -> None:
    corpse = kill_at(point(name), table.folder / "release.yaml", table.folder / "draws-killed")
    assert corpse.code == -9, corpse.stderr


def resumed(table: World) -> tuple[int, int, str]:
    """Exit code, number of draws, and the messages of a run."""
    with noted_draws(table.folder / "draws"):
        before = len(drawn(table.folder / "draws"))
        code, _, err = table.run()
    return code, len(drawn(table.folder / "draws")) - before, err


def journal(table: World) -> Path:
    return publish.state_folder(table.job().output, table.job().release_id) / "journal.jsonl"


@pytest.mark.smoke(1)
@pytest.mark.parametrize("backup", ["before the plan", "reserve, after its commit"])
def test_a_ledger_restored_from_a_backup_never_runs_uncharged(table: World, backup: str) -> None:
    """The journal holds answers whose charge the ledger has lost."""
    if backup != "before the plan":
        killed(table, backup)
    shutil.copy(table.folder / "marquee.db", table.folder / "backup.db")
    killed(table)
    shutil.copy(table.folder / "backup.db", table.folder / "marquee.db")
    code, draws, err = resumed(table)
    assert (table.charges(), code) == (1, 0) or (code, draws) == (7, 0), err


def test_a_second_ledger_never_gets_the_answers_for_nothing(table: World) -> None:
    killed(table)
    other = "sqlite:///other.db"
    SqlLedger(other).create_dataset("people", 1.0, 1e-6)
    table.set("privacy.ledger", other)
    code, draws, err = resumed(table)
    charges = len(SqlLedger(other).history("people"))
    assert (charges, code) == (1, 0) or (code, draws) == (7, 0), err


@pytest.mark.smoke(2)
@pytest.mark.parametrize("cut", [
    lambda lines: lines[:-1],
    lambda lines: lines[:1],
    lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")],
    lambda lines: [*lines[:-1], lines[-1][:40]],
], ids=["one answer less", "an old copy", "a newline less", "half a line"])  # fmt: skip
def test_answers_that_the_ledger_knows_are_missed(table: World, cut: Callable[[list[bytes]], list[bytes]]) -> None:
    """The answers were used, so a restored copy of the journal, or an editor, must not lead to a second draw."""
    killed(table)
    lines = journal(table).read_bytes().splitlines(keepends=True)
    journal(table).write_bytes(b"".join(cut(lines)))
    code, draws, err = resumed(table)
    assert (code, draws) == (7, 0), err
    assert "journal" in err
    assert not (table.folder / "out" / "people").exists()
    journal(table).write_bytes(b"".join(lines))
    assert resumed(table)[:2] == (0, ANSWERS - 4)


@pytest.mark.parametrize("committed", [False, True])
def test_a_ledger_that_goes_away_while_it_is_told_costs_no_answer(
    table: World, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The run cannot know whether the ledger recorded the answer, and stops; the next run finds it in the journal."""
    tell = SqlLedger.record_answer

    def lost(self: SqlLedger, release_id: str, number: int, *given: Any) -> None:
        if number != 3 or committed:
            tell(self, release_id, number, *given)
        if number == 3:
            raise LedgerUnavailableError("the ledger cannot be reached; try again")

    with monkeypatch.context() as patch:
        patch.setattr(SqlLedger, "record_answer", lost)
        assert resumed(table)[:2] == (5, 4)
    stored = journal(table).read_bytes()
    assert stored.count(b"\n") == 4
    assert resumed(table)[:2] == (0, ANSWERS - 4)
    assert journal(table).read_bytes().startswith(stored)
    assert table.charges() == 1


def test_two_machines_with_copies_of_one_state_folder_publish_one_draw(table: World) -> None:
    killed(table)
    here, elsewhere = table.folder / "out", table.folder / "elsewhere"
    shutil.copytree(here, table.folder / "copy")
    assert resumed(table)[:2] == (0, ANSWERS - 4)
    here.rename(elsewhere)
    (table.folder / "copy").rename(here)
    code, draws, err = resumed(table)
    assert (code, draws) == (7, 0), err
    assert not (here / "people").exists()
    assert table.charges() == 1


def test_a_machine_that_was_overtaken_publishes_nothing(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While this run stores an answer, another machine with a copy of its folder runs to the end."""
    killed(table)
    here, elsewhere, record = table.folder / "out", table.folder / "elsewhere", Journal.record
    shutil.copytree(here, elsewhere)
    outcomes: list[int] = []

    def overtaken(*given: Any) -> None:
        monkeypatch.setattr(Journal, "record", record)
        here.rename(table.folder / "kept")
        elsewhere.rename(here)
        outcomes.append(table.run()[0])
        here.rename(elsewhere)
        (table.folder / "kept").rename(here)
        record(*given)

    monkeypatch.setattr(Journal, "record", overtaken)
    code, _, err = table.run()
    assert (outcomes, code) == ([0], 7), err
    assert not (here / "people").exists()
    assert (elsewhere / "people" / "_SUCCESS").exists()
    assert table.charges() == 1


def no_locks(table: World, patch: pytest.MonkeyPatch) -> None:
    """As on a network file system without a lock service, or after its lease ended."""
    patch.setattr(fcntl, "flock", lambda *_: None)


def lock_removed(table: World, patch: pytest.MonkeyPatch) -> None:
    (journal(table).parent / "lock").unlink()


@pytest.mark.parametrize("unlock", [no_locks, lock_removed])
def test_without_its_lock_a_release_is_still_one_draw(
    table: World, monkeypatch: pytest.MonkeyPatch, unlock: Callable[[World, pytest.MonkeyPatch], None]
) -> None:
    """Two runs in one folder at once: the ledger decides which answers are those of the release."""
    record, outcomes = Journal.record, []

    def joined(journal: Journal, index: int, *given: Any) -> None:
        if index == 4:
            monkeypatch.setattr(Journal, "record", record)
            unlock(table, monkeypatch)
            outcomes.append(table.run()[0])
        record(journal, index, *given)

    monkeypatch.setattr(Journal, "record", joined)
    code, _, err = table.run()
    assert (outcomes, code) == ([0], 7), err
    published = table.files("out/people")
    assert (table.state(), table.charges()) == (State.PUBLISHED, 1)
    assert table.run()[0] == 0
    assert table.files("out/people") == published
    (table.folder / "out" / "people").rename(table.folder / "lost")
    code, draws, _ = resumed(table)
    assert draws == 0, "a damaged journal is never made whole by new draws"
    assert code == 7 or table.files("out/people") == published


def test_processes_that_start_at_once_draw_once(table: World) -> None:
    """Two pairs of runs of one release, each pair with an output folder of its own."""
    other = yaml.safe_load((table.folder / "release.yaml").read_text())
    other["output"]["path"] = "out/other"
    (table.folder / "other.yaml").write_text(yaml.safe_dump(other))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.Popen([sys.executable, "-m", "jobs", "run", name], cwd=table.folder, env=environment,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in ("release.yaml", "other.yaml") * 2
    ]  # fmt: skip
    codes = {one.wait(120) for one in runs}
    assert 0 in codes
    assert codes <= {0, 5}
    assert (table.state(), table.charges()) == (State.PUBLISHED, 1)
    assert journal(table).read_bytes().count(b"\n") == ANSWERS
    assert len(list((table.folder / "out").glob("*/_SUCCESS"))) == 1
    for name in ("release.yaml", "other.yaml"):
        assert table.marquee("run", name)[0] == 0
    assert len(list((table.folder / "out").glob("*/_SUCCESS"))) == 1


def test_a_rename_that_only_seems_to_fail_is_found_done(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may answer a repeated request with an error although the first one took effect."""
    rename = os.rename

    def seems_to_fail(source: Path, target: Path) -> None:
        rename(source, target)
        raise FileNotFoundError(2, "No such file or directory")

    with monkeypatch.context() as patch:
        patch.setattr(publish.os, "rename", seems_to_fail)
        assert table.run()[0] == 70
    files = table.files("out/people")
    assert resumed(table)[:2] == (0, 0)
    assert table.files("out/people") == files | {"out/people/_SUCCESS": b""}
    assert (table.state(), table.charges()) == (State.PUBLISHED, 1)


@pytest.mark.smoke(1)
@pytest.mark.parametrize("stamp", [0, 4_000_000_000], ids=["past", "future"])
def test_no_clock_decides_what_is_drawn(table: World, stamp: int) -> None:
    killed(table)
    for path in (table.folder / "out").rglob("*"):
        os.utime(path, (stamp, stamp))
    with closing(sqlite3.connect(table.folder / "marquee.db")) as ledger, ledger:
        ledger.execute("UPDATE releases SET created = ?, updated = ?", (f"{stamp:040}",) * 2)
    stored = journal(table).read_bytes()
    assert resumed(table)[:2] == (0, ANSWERS - 4)
    assert journal(table).read_bytes().startswith(stored)
    assert table.charges() == 1


def test_changed_settings_are_another_release_with_its_own_charge(table: World) -> None:
    killed(table)
    table.set("mechanism.rounds", 2)
    code, draws, err = resumed(table)
    assert (code, draws) == (4, 0), err
    table.set("mechanism.rounds", 3)
    assert resumed(table)[:2] == (0, ANSWERS - 4)
    assert len(SqlLedger(LEDGER).history("people")) == 1
