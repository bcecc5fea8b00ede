"""Releases on either database: consumers, answers that the ledger knows one by one, a ledger or disk that fails."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpcore.errors import LedgerUnavailableError
from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord, State
from jobs.release.journal import Journal
from tests.support.ledgers import past_the_ledger
from tests.support.releases import World, table_world


class Place:
    """A table, a config, and a ledger on either database."""

    def __init__(self, world: World, url: str) -> None:
        self.world, self.url, self.ledger = world, url, SqlLedger(url)
        world.set("privacy.ledger", url)
        world.set("privacy.delta", 0.0)
        self.ledger.create_dataset("people", 5.0, 0.0)

    @property
    def record(self) -> ReleaseRecord:
        record = self.ledger.release(self.world.job().release_id)
        assert record is not None
        return record

    @property
    def journal(self) -> Path:
        return Path(self.record.state_folder) / "journal.jsonl"

    def unpublish(self) -> None:
        """As after a kill before the rename."""
        (self.world.folder / "out" / "people").rename(self.world.folder / f"gone-{len(os.listdir(self.world.folder))}")

    def forget(self, answers: int) -> None:
        """Sets the ledger back to when it knew that many answers."""
        head = self.journal_heads()[answers - 1] if answers else None
        value = "NULL" if head is None else f"'{head}'"
        past_the_ledger(self.url, f"UPDATE releases SET state='measuring', answers={answers}, journal_head={value}")

    def journal_heads(self) -> list[str]:
        return [str(json.loads(line)["chain"]) for line in self.journal.read_text().splitlines()]


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ledger_url: str
) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(table_world(tmp_path, capsys), ledger_url)


def test_every_answer_of_a_release_is_known_to_the_ledger(place: Place) -> None:
    code, _, err = place.world.run()
    assert code == 0, err
    heads = place.journal_heads()
    assert (place.record.state, place.record.answers, place.record.journal_head) == (
        State.PUBLISHED, len(heads), heads[-1],
    )  # fmt: skip
    assert len(heads) > 3


def test_a_journal_cut_between_whole_lines_is_noticed(place: Place) -> None:
    """An answer that was used is never drawn again, also while measuring, and for every number of lines."""
    assert place.world.run()[0] == 0
    place.unpublish()
    lines = place.journal.read_bytes().splitlines(keepends=True)
    place.forget(len(lines) - 1)
    for kept in range(len(lines) - 1):
        place.journal.write_bytes(b"".join(lines[:kept]))
        code, _, err = place.world.run()
        assert (code, "lacks answers" in err) == (7, True), (kept, err)
    place.journal.write_bytes(b"".join(lines))
    assert place.world.run()[0] == 0, "one answer more than the ledger knew is that of a run killed in between"
    assert place.journal.read_bytes() == b"".join(lines)


def test_a_ledger_older_than_the_journal_is_noticed(place: Place) -> None:
    assert place.world.run()[0] == 0
    place.unpublish()
    place.forget(1)
    code, _, err = place.world.run()
    assert (code, "more answers than the ledger has recorded" in err) == (7, True), err


def test_a_release_of_layout_1_goes_on_from_its_journal(place: Place) -> None:
    """The ledger of layout 1 knew the hash of the first answer while measuring, and afterwards that of all answers."""
    assert place.world.run()[0] == 0
    heads, whole = place.journal_heads(), place.journal.read_bytes()
    for state, head in (("measuring", heads[0]), ("estimated", heads[-1])):
        place.unpublish()
        past_the_ledger(place.url, f"UPDATE releases SET state='{state}', answers=NULL, journal_head='{head}'")
        code, _, err = place.world.run()
        assert code == 0, err
        assert (place.record.answers, place.record.journal_head) == (len(heads), heads[-1])
        assert place.journal.read_bytes() == whole
    place.unpublish()
    past_the_ledger(place.url, f"UPDATE releases SET state='estimated', answers=NULL, journal_head='{heads[-1]}'")
    place.journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert place.world.run()[0] == 7


def test_a_ledger_that_goes_away_in_the_middle_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    record, calls = SqlLedger.record_answer, 0

    def away(self: SqlLedger, *told: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise LedgerUnavailableError("the ledger cannot be reached")
        record(self, *told)

    with monkeypatch.context() as patched:
        patched.setattr(SqlLedger, "record_answer", away)
        code, _, err = place.world.run()
        assert (code, "cannot be reached" in err) == (5, True), err
    assert place.record.answers == 2
    drawn = place.journal.read_bytes()
    assert len(drawn.splitlines()) == 3, "the third is on disk, and was not used"
    assert place.world.run()[0] == 0
    assert place.journal.read_bytes().startswith(drawn)
    assert len(place.ledger.history("people")) == 1


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/place")


@pytest.mark.parametrize("place_of_failure", ["third answer", "certificate", "staging"])
def test_a_full_disk_ends_in_a_sentence_and_the_release_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, place_of_failure: str
) -> None:
    append, answers = Journal._append, 0

    def third_is_too_much(self: Journal, line: bytes) -> None:
        nonlocal answers
        answers += 1
        with monkeypatch.context() as patched:
            if answers == 3:
                patched.setattr(os, "fsync", no_room)
            append(self, line)

    with monkeypatch.context() as patched:
        if place_of_failure == "third answer":
            patched.setattr(Journal, "_append", third_is_too_much)
        elif place_of_failure == "certificate":
            patched.setattr("jobs.release.run.write_certificate", no_room)
        else:
            patched.setattr("jobs.release.publish._sync", no_room)
        code, _, err = place.world.run()
    assert (code, "a disk is full" in err, "secret" in err) == (6, True, False), err
    assert not (place.world.folder / "out" / "people").exists()
    drawn = b"".join(place.journal.read_bytes().splitlines(keepends=True)[: place.record.answers])
    assert place.record.answers == (2 if place_of_failure == "third answer" else len(place.journal_heads()))
    assert place.world.run()[0] == 0
    assert place.journal.read_bytes().startswith(drawn)
    assert len(place.ledger.history("people")) == 1


def test_a_release_of_a_consumer_is_charged_to_both(place: Place) -> None:
    place.world.set("privacy.consumer", "team")
    code, _, err = place.world.run()
    assert (code, "--dataset people --consumer team --epsilon 1 --delta 0" in err) == (4, True), err
    place.ledger.grant_consumer("people", "team", 1.5, 0.0)
    assert place.world.run()[0] == 0
    assert place.world.run()[0] == 0
    (team,) = place.ledger.consumers("people")
    assert (team.spent, place.ledger.datasets()[0].spent) == (1, 1)
    place.world.set("dataset.snapshot", "later")
    place.world.set("output.path", "out/later")
    code, _, err = place.world.run()
    assert (code, "consumer 'team'" in err) == (4, True), err


def test_a_certificate_with_another_epsilon_and_a_mended_manifest_is_not_already_published(place: Place) -> None:
    assert place.world.run()[0] == 0
    folder = place.world.folder / "out" / "people"
    certificate, manifest = folder / "certificate.json", folder / "manifest.json"
    said = json.loads(certificate.read_text())
    assert said["ledger_id"] == place.ledger.ledger_id()
    published = json.loads(manifest.read_text())
    said["guarantee"]["epsilon"] = 0.1
    certificate.write_text(json.dumps(said))
    for entry in published["files"]:
        content = (folder / entry["path"]).read_bytes()
        entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    manifest.write_text(json.dumps(published))
    code, out, err = place.world.run()
    assert (code, out) == (7, "")
    assert "manifest.json is not the manifest that was published" in err
