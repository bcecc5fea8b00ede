"""One run of a release at a time, in a folder whose name survives a loss of power."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from dpcore.errors import ConfigError, LedgerUnavailableError
from jobs.release import publish
from jobs.release.lock import only_run


def synced_folders(patch: pytest.MonkeyPatch) -> list[str]:
    """A list that records the folders in the order in which they are synced."""
    seen: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    patch.setattr(os, "fsync", noted)
    return seen


def test_a_second_run_waits_for_its_turn(tmp_path: Path) -> None:
    first, second = only_run(tmp_path / "state"), only_run(tmp_path / "state")
    with first, pytest.raises(LedgerUnavailableError, match="try again"), second:
        raise AssertionError("both ran")
    with only_run(tmp_path / "state"):
        pass


def test_every_name_on_the_way_to_the_journal_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder, or one made by a run that died at once, is lost unless its parent is synced."""
    seen = synced_folders(monkeypatch)
    for _ in range(2):
        seen.clear()
        with only_run(tmp_path / "new" / "out" / ".marquee" / "release"):
            pass
        assert {str(tmp_path / name) for name in ("new/out/.marquee", "new/out", "new", ".")} <= set(seen)


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match="cannot be locked .* want a file system with locks"), only_run(tmp_path):
        raise AssertionError("it ran without a lock")


def test_a_rename_that_was_not_synced_is_synced_before_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    seen = synced_folders(monkeypatch)
    publish.finish(output)
    assert seen == [str(tmp_path), str(output / "_SUCCESS"), str(output)]
