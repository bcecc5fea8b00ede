"""The journal: every answer is on disk before it is used, and changed or foreign answers are refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import IntegrityError, LedgerUnavailableError
from jobs.release.journal import Journal, JournalFrom
from jobs.release.journal_file import JournalFile

RELEASE = "r" * 64


def filled(path: Path, answers: list[list[int]]) -> Journal:
    journal = Journal(JournalFile(path), RELEASE)
    for index, answer in enumerate(answers):
        journal.record(index, f"request {index}", np.array(answer, dtype=np.int64))
    return journal


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)), max_size=6))
def test_what_is_recorded_is_recalled_by_another_process(
    tmp_path_factory: pytest.TempPathFactory, answers: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    head = filled(path, answers).head
    again = Journal(JournalFile(path), RELEASE)
    assert (len(again), again.head) == (len(answers), head)
    for index, answer in enumerate(answers):
        recalled = again.recall(index, f"request {index}")
        assert recalled is not None
        assert recalled.dtype == np.int64
        assert recalled.tolist() == answer
    assert again.recall(len(answers), "next") is None


def test_an_answer_is_synced_before_it_is_told_and_told_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("sync"), sync(handle))[1])
    journal = Journal(JournalFile(tmp_path / "journal.jsonl"), RELEASE, lambda *told: events.append(told))
    journal.record(0, "a", np.array([1]))
    start = journal.head
    journal.record(1, "b", np.array([2]))
    # First the line, then the new name; each answer with the hash before it and its own.
    assert events == ["sync", "sync", (0, None, start), "sync", (1, start, journal.head)]
    again = Journal(JournalFile(tmp_path / "journal.jsonl"), RELEASE)
    assert [again.head_at(answers) for answers in range(3)] == [None, start, journal.head]


def test_an_answer_that_could_not_be_told_is_neither_used_nor_drawn_again(tmp_path: Path) -> None:
    def away(*_: object) -> None:
        raise LedgerUnavailableError("away")

    path = tmp_path / "journal.jsonl"
    journal = Journal(JournalFile(path), RELEASE, away)
    with pytest.raises(LedgerUnavailableError, match="away"):
        journal.record(0, "a", np.array([1]))
    with pytest.raises(LedgerUnavailableError, match="did not record"):
        journal.recall(0, "a")
    with pytest.raises(LedgerUnavailableError, match="did not record"):
        journal.record(0, "a", np.array([2]))
    told: list[object] = []
    another = Journal(JournalFile(path), RELEASE, lambda *one: told.append(one))
    another.reconcile(0, None)
    assert told == [(0, None, another.head)]
    recalled = another.recall(0, "a")
    assert recalled is not None
    assert recalled.tolist() == [1]


@pytest.mark.parametrize("known", range(4))
def test_a_journal_agrees_with_what_is_known_of_it(tmp_path: Path, known: int) -> None:
    """The ledger may know three or four of four answers; with any other number, ledger or journal is an old copy."""
    path = tmp_path / "journal.jsonl"
    whole = filled(path, [[1], [2], [3], [4]])
    whole.reconcile(4, whole.head)
    if known == 3:
        whole.reconcile(known, whole.head_at(known))
        return
    with pytest.raises(IntegrityError, match="more answers than the ledger has recorded"):
        whole.reconcile(known, whole.head_at(known))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:known]))
    with pytest.raises(IntegrityError, match="lacks answers"):
        Journal(JournalFile(path), RELEASE).reconcile(4, whole.head)


def test_other_answers_at_the_same_place_do_not_agree(tmp_path: Path) -> None:
    other = filled(tmp_path / "other.jsonl", [[1], [3]])
    with pytest.raises(IntegrityError, match="lacks answers"):
        filled(tmp_path / "journal.jsonl", [[1], [2]]).reconcile(2, other.head)
    with pytest.raises(IntegrityError, match="lacks answers"):
        filled(tmp_path / "empty.jsonl", []).reconcile(1, other.head_at(1))


def test_an_empty_file_of_a_process_that_died_gets_a_durable_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.jsonl").touch()
    journal = Journal(JournalFile(tmp_path / "journal.jsonl"), RELEASE)
    assert journal.head is None
    named: list[Path] = []
    monkeypatch.setattr("jobs.release.journal_file.sync_folder", named.append)
    journal.record(0, "a", np.array([1]))
    assert named == [tmp_path]


def test_an_answer_that_could_not_be_written_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = filled(tmp_path / "journal.jsonl", [[1]])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.record(1, "request 1", np.array([2]))
    assert journal.recall(1, "request 1") is None
    journal.record(1, "request 1", np.array([3]))
    recalled = Journal(JournalFile(tmp_path / "journal.jsonl"), RELEASE).recall(1, "request 1")
    assert recalled is not None
    assert recalled.tolist() == [3]


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], [2]])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[: first + kept])
    journal = Journal(JournalFile(path), RELEASE)
    assert len(journal) == 1
    journal.record(1, "other", np.array([3]))
    recalled = Journal(JournalFile(path), RELEASE).recall(1, "other")
    assert recalled is not None
    assert recalled.tolist() == [3]


def test_zeros_where_the_last_line_never_arrived_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1]])
    path.write_bytes(path.read_bytes() + b"\0" * 80 + b"}\n")
    assert len(Journal(JournalFile(path), RELEASE)) == 1


def changed_answer(lines: list[bytes]) -> list[bytes]:
    entry = json.loads(lines[1])
    return [lines[0], json.dumps({**entry, "answer": "AAAAAAAAAAA="}).encode() + b"\n", lines[2]]


DAMAGE = {
    "a changed answer": changed_answer,
    "a missing line": lambda lines: [lines[0], lines[2]],
    "swapped lines": lambda lines: [lines[1], lines[0], lines[2]],
    "a repeated line": lambda lines: [lines[0], lines[0], lines[1]],
    "not JSON in the middle": lambda lines: [lines[0], b"garbage\n", lines[2]],
    "not JSON at the end, but a whole line": lambda lines: [lines[0], lines[1], b"garbage\n"],
    "a key is missing": lambda lines: [b'{"index": 0}\n', lines[1]],
    "not base64": lambda lines: [lines[0].replace(b'"answer": "', b'"answer": "!'), lines[1]],
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_an_integrity_error_that_names_the_file(tmp_path: Path, what: str) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], [2], [3]])
    path.write_bytes(b"".join(DAMAGE[what](path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(IntegrityError, match=r"journal\.jsonl"):
        Journal(JournalFile(path), RELEASE)


def test_the_journal_of_another_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1]])
    with pytest.raises(IntegrityError, match="this release's journal"):
        Journal(JournalFile(path), "s" * 64)


def test_another_request_is_never_answered(tmp_path: Path) -> None:
    journal = filled(tmp_path / "journal.jsonl", [[1]])
    with pytest.raises(IntegrityError, match="another request"):
        journal.recall(0, "something else")


def test_answers_come_in_order(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="in order"):
        filled(tmp_path / "journal.jsonl", [[1]]).record(2, "c", np.array([1]))


def test_what_a_killed_process_wrote_is_synced_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], [2]])
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), sync(handle))[1])
    journal = Journal(JournalFile(path), RELEASE)
    assert synced == [path.stat().st_ino]
    assert journal.recall(1, "request 1") is not None


def test_a_torn_line_longer_than_the_next_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], list(range(1000))])
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(JournalFile(path), RELEASE)
    assert len(journal) == 1
    journal.record(1, "request 1", np.array([2]))
    journal.record(2, "request 2", np.array([3]))
    again = Journal(JournalFile(path), RELEASE)
    assert (len(again), again.head) == (3, journal.head)
    assert path.read_bytes().count(b"\n") == 3
    assert path.read_bytes().endswith(b"\n")


def test_zeros_in_a_line_before_the_last_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], [2], [3]])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"request 1", b"request\0 1")
    path.write_bytes(b"".join(lines))
    with pytest.raises(IntegrityError, match="line 2"):
        Journal(JournalFile(path), RELEASE)


def test_a_changed_request_breaks_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, [[1], [2]])
    path.write_bytes(path.read_bytes().replace(b"request 0", b"request 9"))
    with pytest.raises(IntegrityError, match="line 1 .* does not follow"):
        Journal(JournalFile(path), RELEASE)


def test_a_recalled_answer_is_a_copy(tmp_path: Path) -> None:
    journal = filled(tmp_path / "journal.jsonl", [[1, 2]])
    first = journal.recall(0, "request 0")
    assert first is not None
    first[:] = 7
    second = journal.recall(0, "request 0")
    assert second is not None
    assert second.tolist() == [1, 2]


def test_a_part_of_a_journal_begins_where_it_says(tmp_path: Path) -> None:
    journal = filled(tmp_path / "journal.jsonl", [[1], [2]])
    part = JournalFrom(journal, 1)
    recalled = part.recall(0, "request 1")
    assert recalled is not None
    assert recalled.tolist() == [2]
    part.record(1, "request 2", np.array([3]))
    assert len(journal) == 3
    assert part.recall(2, "next") is None
