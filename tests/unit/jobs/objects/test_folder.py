"""Folders of a real store, moto, behind a proxy that fails in every way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from dpcore.errors import EngineError, IntegrityError, LedgerUnavailableError
from jobs.objects import folder as folders
from jobs.objects.output import local_copy, read_file
from jobs.release.journal import Journal
from jobs.release.journal_objects import JournalObjects
from tests.support.object_stores import Store, contents, s3
from tests.support.unreliable_proxy import Failure, Faults, proxy

RELEASE = "r" * 64


@pytest.fixture(scope="module")
def bucket() -> Iterator[Store]:
    with s3() as running:
        yield running


class Chosen(Faults):
    """Fails requests of one method, in one way."""

    def __init__(self, failure: Failure, method: str, first: int = 1, times: int = 1) -> None:
        super().__init__(0.0, 0)
        self._failure, self._method, self._failing = failure, method, range(first, first + times)
        self._seen = 0

    def next(self, method: str, path: str) -> Failure | None:
        self._seen += method == self._method
        return self._failure if method == self._method and self._seen in self._failing else None


@pytest.mark.parametrize("failure", list(Failure), ids=lambda failure: failure.name)
def test_a_put_whose_answer_is_lost_finds_its_own_object(bucket: Store, failure: Failure) -> None:
    key = f"puts/{failure.name}"
    with proxy(bucket.address, Chosen(failure, "PUT")) as address:
        folder = bucket.at(address).folder(key)
        assert folder.create("a", b"mine")
    assert bucket.folder(key).read("a") == b"mine"
    with proxy(bucket.address, Chosen(failure, "PUT")) as address:
        folder = bucket.at(address).folder(key)
        assert not folder.create("a", b"yours")
    assert bucket.folder(key).read("a") == b"mine"


@pytest.mark.parametrize("failure", list(Failure), ids=lambda failure: failure.name)
def test_reads_copies_and_lists_are_repeated(bucket: Store, tmp_path: Path, failure: Failure) -> None:
    key, content = f"reads/{failure.name}", b"0123456789" * 100
    assert bucket.folder(key).create("a", content)
    for method in ("GET", "PUT", "DELETE"):
        with proxy(bucket.address, Chosen(failure, method, times=2)) as address:
            folder = bucket.at(address).folder(key)
            assert folder.read("a") == content
            assert folder.copy(folder, "a", "b", len(content))
            assert folder.sizes() == {"a": len(content), "b": len(content)}
            assert folder.sha256("b") == hashlib.sha256(content).hexdigest()
            assert folder.download("b", tmp_path / "b")
            assert (tmp_path / "b").read_bytes() == content
            folder.delete(["b"])
        assert bucket.folder(key).sizes() == {"a": len(content)}


def test_a_store_that_never_answers_is_given_up(bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_FIRST_WAIT", 0.001)
    away = pytest.raises(EngineError, match="s3://bucket/gone could not be reached in its store")
    with proxy(bucket.address, Chosen(Failure.UNAVAILABLE, "PUT", times=10**9)) as address, away:
        bucket.at(address).folder("gone").create("a", b"")
    assert bucket.folder("gone").sizes() == {}


def test_large_objects_are_streamed(bucket: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_PUT_AT_ONCE", 10)
    monkeypatch.setattr(folders, "_COPIED_AT_ONCE", 10)
    monkeypatch.setattr(folders, "_CHUNK", 1 << 20)
    content = np.random.default_rng(1).bytes(12 << 20)
    (tmp_path / "large").write_bytes(content)
    folder = bucket.folder("large")
    folder.upload("a", tmp_path / "large")
    assert folder.copy(folder, "a", "b", len(content))
    assert folder.sha256("b") == hashlib.sha256(content).hexdigest()
    assert not folder.copy(folder, "none", "c", len(content))


def test_folders_do_not_see_their_neighbours(bucket: Store) -> None:
    assert bucket.folder("near/a").create("x", b"1")
    assert bucket.folder("near/ab").create("y", b"2")
    assert bucket.folder("near/a").sizes() == {"x": 1}
    assert (bucket.folder("near") / "ab").sizes() == {"y": 1}
    assert bucket.folder("near/ab").parent.sizes() == {"a/x": 1, "ab/y": 1}


def test_objects_that_stand_for_folders_are_no_files(bucket: Store) -> None:
    """pyarrow creates them, as consoles do; an empty object with nothing below it is a file."""
    files, path = fs.FileSystem.from_uri(bucket.url("marked"))
    files.create_dir(f"{path}/deep/er", recursive=True)
    folder = bucket.folder("marked")
    assert folder.create("deep/er/a", b"1")
    assert folder.create("deep/b", b"")
    assert folder.sizes() == {"deep/er/a": 1, "deep/b": 0}


def test_a_local_copy_is_private_and_short_lived(bucket: Store) -> None:
    folder = bucket.folder("copied")
    assert folder.create("synthetic/part-0", b"1")
    seen: list[Path] = []

    def wrong() -> None:
        with local_copy(folder, ["synthetic/part-0", "none"]) as copy:
            seen.append(copy)
            assert copy.stat().st_mode & 0o777 == 0o700
            assert [path.name for path in copy.rglob("*")] == ["synthetic", "part-0"]
            raise IntegrityError(f"{copy}/synthetic/part-0 is wrong")

    with pytest.raises(IntegrityError, match="^s3://bucket/copied/synthetic/part-0 is wrong"):
        wrong()
    assert not seen[0].exists()
    assert (read_file(folder, "synthetic/part-0"), read_file(folder, "none")) == (b"1", None)


def journal(bucket: Store, key: str, ledger: str = "ledger-1") -> Journal:
    return Journal(JournalObjects(bucket.folder(key), ledger), RELEASE)


def record(journal: Journal, *values: int) -> None:
    for value in values:
        journal.record(len(journal), f"request {len(journal)}", np.array([value]))


def test_a_journal_is_read_again_by_another_machine(bucket: Store) -> None:
    first = journal(bucket, "journals/again")
    record(first, 1, 2, 3)
    again = journal(bucket, "journals/again")
    assert (len(again), again.head) == (3, first.head)
    record(again, 4)
    assert [len(text or b"") > 0 for text in contents(bucket.folder("journals/again/journal")).values()] == [True] * 4


def test_one_of_two_answers_with_one_number_is_stored(bucket: Store) -> None:
    first, second = journal(bucket, "journals/race"), journal(bucket, "journals/race")
    record(first, 1)
    with pytest.raises(LedgerUnavailableError, match="another process runs this release and has stored answer 0"):
        record(second, 2)
    assert len(second) == 0
    assert journal(bucket, "journals/race").head == first.head


def test_a_journal_of_another_ledger_is_refused(bucket: Store) -> None:
    record(journal(bucket, "journals/owner"), 1)
    with pytest.raises(IntegrityError, match="belongs to another ledger"):
        journal(bucket, "journals/owner", "ledger-2")


def test_a_gap_is_damage(bucket: Store) -> None:
    record(journal(bucket, "journals/gap"), 1, 2, 3)
    bucket.folder("journals/gap/journal").delete(["000001.json"])
    with pytest.raises(IntegrityError, match="lacks answers before number 2"):
        journal(bucket, "journals/gap")


def test_a_changed_answer_is_damage(bucket: Store) -> None:
    record(journal(bucket, "journals/changed"), 1, 2)
    stored = bucket.folder("journals/changed/journal")
    line = stored.read("000001.json") or b""
    stored.delete(["000001.json"])
    assert stored.create("000001.json", line.replace(b"request 1", b"request 9"))
    with pytest.raises(IntegrityError, match="line 2 of s3://bucket/journals/changed/journal does not follow"):
        journal(bucket, "journals/changed")
