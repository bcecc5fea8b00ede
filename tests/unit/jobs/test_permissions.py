"""The ledger, the journal and the lock: modes from their creation, and what happens to files that others may open."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpcore.errors import ConfigError
from jobs import log, permissions
from jobs.ledger import SqlLedger
from jobs.permissions import protect_ledger
from jobs.release.journal import Journal
from jobs.release.journal_file import JournalFile
from jobs.release.lock import only_run
from jobs.release.publish import fresh_staging, trace_of_another_ledger
from tests.support.releases import World, table_world

SIDES = ("-journal", "-wal", "-shm")
RELEASE = "r" * 64


@pytest.fixture(autouse=True)
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The warnings of a test, which runs with the most generous umask."""
    said: list[str] = []
    monkeypatch.setattr(log, "warning", lambda event, **_: said.append(event))
    monkeypatch.setattr(permissions, "_warned", set())
    before = os.umask(0)
    yield said
    os.umask(before)


@pytest.fixture
def no_later_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are private when they appear: a mode that is changed afterwards comes too late."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a mode was changed after the file had appeared")

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    monkeypatch.setattr(Path, "chmod", refuse)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def shared(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o2770)
    return folder


def state(folder: Path) -> Path:
    """A state folder with a lock and a journal of one answer."""
    created = folder / ".marquee" / RELEASE
    with only_run(created):
        Journal(JournalFile(created / "journal.jsonl"), RELEASE).record(0, "request", np.array([1]))
    return created


@pytest.mark.usefixtures("no_later_change")
def test_the_state_folder_is_its_owners_from_the_beginning(tmp_path: Path) -> None:
    created = state(tmp_path / "out")
    assert [mode(created), mode(created.parent)] == [0o700, 0o700]
    assert {path.name: mode(path) for path in created.iterdir()} == {"lock": 0o600, "journal.jsonl": 0o600}


def test_a_folder_that_a_group_shares_hands_its_permissions_on(tmp_path: Path) -> None:
    created = state(shared(tmp_path / "out"))
    assert [mode(created), mode(created.parent)] == [0o2770, 0o2770]
    assert {path.name: mode(path) for path in created.iterdir()} == {"lock": 0o660, "journal.jsonl": 0o660}


@pytest.mark.parametrize("almost", [0o770, 0o2750], ids=oct)
def test_half_of_the_sign_shares_nothing(tmp_path: Path, almost: int) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(almost)
    assert mode(state(tmp_path / "out")) & 0o077 == 0


def test_an_existing_state_folder_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / ".marquee").mkdir(mode=0o755)
    assert mode(state(tmp_path)) == 0o700
    assert mode(tmp_path / ".marquee") == 0o755


def test_a_run_leaves_private_files_and_a_public_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    world: World = table_world(tmp_path, capsys)
    world.budget()
    assert world.run()[0] == 0
    private = [tmp_path / "marquee.db", *(tmp_path / "out" / ".marquee").rglob("*"), tmp_path / "out" / ".marquee"]
    assert len(private) >= 5
    assert [path for path in private if mode(path) & 0o077] == []
    assert mode(tmp_path / "out" / "people" / "answers.parquet") == 0o666


@pytest.mark.parametrize("name", ["lock", "journal.jsonl"])
def test_files_of_another_user_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    created = state(tmp_path)
    system = os.open

    def refuse(path: object, *given: int) -> int:
        if str(path).endswith(name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return system(path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    if name == "lock":
        with pytest.raises(ConfigError, match=r"lock cannot be opened \(Permission denied\); want"), only_run(created):
            raise AssertionError("it ran without a lock")
        return
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ConfigError, match=r"journal\.jsonl may not be read; want the user who began this release"):
        Journal(JournalFile(created / name), RELEASE)


def test_a_state_folder_of_another_user_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state(tmp_path)

    def refuse(_: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ConfigError, match=f"{RELEASE} may not be read; want the user who began this release"):
        trace_of_another_ledger(tmp_path / "people", RELEASE)


def test_what_another_member_of_the_group_has_staged_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh_staging(tmp_path)
    (first / "answers.parquet").touch()
    other = first.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert fresh_staging(tmp_path) == tmp_path / f"staging-{other}"
    assert (first / "answers.parquet").exists()


def ledger_at(folder: Path) -> Path:
    SqlLedger(f"sqlite:///{folder / 'ledger.db'}").create_dataset("adult", 1.0, 0.0)
    return folder / "ledger.db"


@pytest.mark.usefixtures("no_later_change")
def test_a_new_ledger_is_its_owners(tmp_path: Path, events: list[str]) -> None:
    assert mode(ledger_at(tmp_path)) == 0o600
    assert events == []


@pytest.mark.parametrize(("before", "after"), [
    (0o644, 0o600), (0o640, 0o600), (0o666, 0o600), (0o660, 0o600), (0o606, 0o600),
], ids=oct)  # fmt: skip
def test_our_own_ledger_is_tightened_with_one_warning(
    tmp_path: Path, events: list[str], before: int, after: int
) -> None:
    file = ledger_at(tmp_path)
    file.chmod(before)
    for _ in range(2):
        SqlLedger(f"sqlite:///{file}").datasets()
    assert mode(file) == after
    (event,) = events
    assert event.startswith(f"ledger {file} could be opened by other users (mode {before:04o})")


def test_a_link_to_a_ledger_and_the_files_beside_it_are_tightened(tmp_path: Path, events: list[str]) -> None:
    file = ledger_at(tmp_path)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link.db").symlink_to(file)
    for side in SIDES:
        file.with_name(file.name + side).touch()
    protect_ledger(tmp_path / "links" / "link.db")
    assert {mode(path) for path in tmp_path.glob("ledger.db*")} == {0o600}
    assert [event.split()[1] for event in events] == [f"{file}{side}" for side in SIDES]


def test_a_shared_folder_keeps_the_ledger_of_the_group(tmp_path: Path, events: list[str]) -> None:
    file = ledger_at(shared(tmp_path / "team"))
    file.chmod(0o660)
    protect_ledger(file)
    assert (mode(file), events) == (0o660, [])
    file.chmod(0o664)
    protect_ledger(file)
    assert (mode(file), len(events)) == (0o660, 1)


@pytest.mark.parametrize(("before", "warnings"), [(0o600, 0), (0o660, 0), (0o640, 0), (0o644, 1)], ids=str)
def test_a_ledger_of_another_user_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str], before: int, warnings: int
) -> None:
    file = ledger_at(tmp_path)
    file.chmod(before)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    for _ in range(2):
        SqlLedger(f"sqlite:///{file}").datasets()
    assert (mode(file), len(events)) == (before, warnings)
    assert all(f"ledger {file} can be read by other users" in event for event in events)


def test_a_ledger_that_everybody_may_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ledger_at(tmp_path)
    file.chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(ConfigError, match=rf"ledger {file} can be changed by every user .* chmod 600 {file}$"):
        SqlLedger(f"sqlite:///{file}").datasets()


@pytest.mark.parametrize("before", [0o644, 0o640], ids=oct)
def test_a_mode_that_cannot_be_changed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str], before: int
) -> None:
    file = ledger_at(tmp_path)
    file.chmod(before)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "chmod", refuse)
    protect_ledger(file)
    protect_ledger(file)
    (event,) = events
    assert "(Operation not permitted); want mode 0600" in event


@pytest.mark.parametrize(("before", "refused"), [(0o666, True), (0o644, False)], ids=str)
def test_a_file_system_that_ignores_modes_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str], before: int, refused: bool
) -> None:
    file = ledger_at(tmp_path)
    file.chmod(before)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    if refused:
        with pytest.raises(ConfigError, match="can be changed by every user"):
            protect_ledger(file)
    else:
        protect_ledger(file)
        assert len(events) == 1


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, events: list[str]) -> None:
    (tmp_path / "ledger.db").write_text("not a database " * 100)
    with pytest.raises(ConfigError, match="is not a SQLite database"):
        SqlLedger(f"sqlite:///{tmp_path / 'ledger.db'}").datasets()
    assert (mode(tmp_path / "ledger.db"), events) == (0o666, [])


def test_a_restored_backup_is_tightened_by_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world: World = table_world(tmp_path, capsys)
    world.budget()
    shutil.copyfile("marquee.db", "backup.db")
    os.replace("backup.db", "marquee.db")
    assert mode(Path("marquee.db")) == 0o666
    assert world.marquee("budget", "show", "--ledger", "sqlite:///marquee.db")[0] == 0
    assert mode(Path("marquee.db")) == 0o600
