"""Releases whose output, journal and staged files lie in object stores: S3, Azure and Google Cloud Storage."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from jobs.ledger.records import State
from jobs.objects.folder import StoredFolder
from jobs.release.journal import Journal
from jobs.release.journal_objects import JournalObjects
from tests.support.object_stores import Store, azure, contents, google, google_json, s3
from tests.support.recorded_randomness import recorded
from tests.support.releases import World, table_world
from tests.support.unreliable_proxy import Faults, proxy

KEY = "releases/people/2026-11"


@pytest.fixture(params=["s3", "azure", "google"], scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("credentials")
    with {"s3": s3, "azure": azure, "google": lambda: google(folder)}[request.param]() as running:
        yield running


@pytest.fixture(scope="module")
def bucket() -> Iterator[Store]:
    with s3() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A table whose temporary files are in the folder ``temporary``, and whose release has synthetic rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


def into(world: World, store: Store, key: str) -> StoredFolder:
    """Makes a store's folder the output of a release; the folder."""
    world.set("output.path", store.url(key))
    return store.folder(key)


def state_of(world: World, folder: StoredFolder) -> StoredFolder:
    return folder.parent / ".marquee" / world.job().release_id


def ending(folder: StoredFolder, content: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """The objects without the one that says when and by which ledger the release was charged, and its hash."""
    return {name: text for name, text in content.items() if name not in ("certificate.json", "manifest.json")}


def test_a_release_in_a_store_has_the_bytes_of_a_local_one(world: World, store: Store) -> None:
    with recorded("draws"):
        code, _, err = world.run()
    assert code == 0, err
    local: dict[str, bytes | None] = {
        name.removeprefix("out/people/"): content for name, content in world.files("out/people").items()
    }
    answers = (world.folder / "out" / ".marquee" / world.job().release_id / "journal.jsonl").read_bytes()
    (world.folder / "marquee.db").unlink()
    world.budget()
    folder = into(world, store, f"bytes/{KEY}")
    with recorded("draws"):
        code, out, err = world.run()
    assert code == 0, err
    assert f"published: {folder}\n" in out
    assert ending(folder, contents(folder)) == ending(folder, local)
    assert b"".join(line or b"" for line in contents(state_of(world, folder) / "journal").values()) == answers
    assert state_of(world, folder).sizes().keys() == {
        "probe", "ledger", *(f"journal/{number:06}.json" for number in range(answers.count(b"\n")))
    }  # fmt: skip
    assert list((world.folder / "temporary").iterdir()) == []


def test_every_command_works_on_a_stored_release(world: World, store: Store) -> None:
    world.config["mechanism"] = {"name": "mst"}
    folder = into(world, store, f"commands/{KEY}")
    ledger = world.config["privacy"]["ledger"]
    assert f"output     {folder}, complete when it has _SUCCESS" in world.marquee("plan", "release.yaml")[1]
    assert world.run()[0] == 0
    before = contents(folder)
    code, out, err = world.run()
    assert (code, contents(folder)) == (0, before), err
    assert f"already published: {folder}" in out
    code, out, err = world.marquee("verify", store.url(f"commands/{KEY}"), "--ledger", ledger)
    assert (code, "FAILED" in out, "not checked" in out) == (0, False, True), out + err
    assert str(folder) in json.loads(world.marquee("status", "release.yaml", "--json")[1])["output"]
    for command in (("evaluate", "release.yaml"), ("generate", "rows", "release.yaml", "more", "--rows", "10")):
        code, out, err = world.marquee(*command)
        assert code == 0, err
    assert pq.read_table("more").num_rows == 10
    code, _, err = world.marquee("generate", "rows", "release.yaml", "s3://bucket/more", "--rows", "10")
    assert (code, "OUT is in a store s3://; want a local folder" in err) == (2, True)
    assert list((world.folder / "temporary").iterdir()) == []
    assert world.charges() == 1
    world.set("output.synthetic_rows", 7)
    assert "generate rows CONFIG FOLDER --rows 7" in world.run()[1]


def test_a_changed_object_is_no_release(world: World, store: Store) -> None:
    folder = into(world, store, f"changed/{KEY}")
    assert world.run()[0] == 0
    file = world.folder / "file"
    for name, message in (("answers.parquet", "differs from the published file"), ("more.txt", "is not listed")):
        kept = folder.read(name)
        file.write_bytes(b"changed")
        folder.upload(name, file)
        for command in (("run", "release.yaml"), ("verify", store.url(f"changed/{KEY}"))):
            code, out, err = world.marquee(*command)
            assert (code, f"{folder}/{name}" in out + err, message in out + err) == (7, True, True), out + err
        assert str(world.folder / "temporary") not in out + err
        if kept is not None:
            file.write_bytes(kept)
            folder.upload(name, file)
    folder.delete(["more.txt"])
    assert world.run()[0] == 0


def test_readers_need_nothing_but_pyarrow(world: World, bucket: Store) -> None:
    folder = into(world, bucket, f"readers/{KEY}")
    assert world.run()[0] == 0
    files, path = fs.FileSystem.from_uri(bucket.url(f"readers/{KEY}"))
    assert files.get_file_info(f"{path}/_SUCCESS").is_file
    assert pq.read_table(f"{path}/answers.parquet", filesystem=files).num_rows > 0
    assert pq.read_table(f"{path}/synthetic", filesystem=files).num_rows > 0
    assert folder.read("_SUCCESS") == b""


def test_an_output_that_is_taken_is_refused(world: World, bucket: Store) -> None:
    folder = into(world, bucket, f"taken/{KEY}")
    assert folder.create("notes.txt", b"mine")
    code, _, err = world.run()
    assert (code, "holds files that are not of a release" in err, world.charges()) == (2, True, 0)
    folder.delete(["notes.txt"])
    assert folder.create("manifest.json", json.dumps({"release_id": "a" * 64}).encode())
    code, _, err = world.run()
    assert (code, "holds release aaaaaaaaaaaa" in err, world.charges()) == (2, True, 0)


def test_another_ledger_is_charged_for_nothing(world: World, bucket: Store) -> None:
    """A journal belongs to the ledger that was charged for its answers, wherever the other ledger lies."""
    folder = into(world, bucket, f"ledgers/{KEY}")
    assert world.run()[0] == 0
    before = contents(folder)
    (world.folder / "marquee.db").rename(world.folder / "first.db")
    world.budget()
    code, _, err = world.run()
    assert (code, world.charges(), contents(folder)) == (7, 0, before), err
    # Even a run that began before the other one stops at its first answer.
    state, row = state_of(world, folder), b'{"index": 0}\n'
    other = JournalObjects(state, "0123456789abcdef")
    with pytest.raises(Exception, match="belongs to another ledger"):
        other.read()
    state.delete(["journal/000000.json"])
    with pytest.raises(Exception, match="belongs to another ledger"):
        other.append(0, row)


def test_two_runs_at_once_are_one_draw(world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock keeps a second run away: the one that stores an answer second stops before it has used its draw."""
    folder, record, outcomes = into(world, bucket, f"twice/{KEY}"), Journal.record, []

    def overtaken(journal: Journal, index: int, *given: Any) -> None:
        if index == 3:
            monkeypatch.setattr(Journal, "record", record)
            outcomes.append(world.run()[0])
        record(journal, index, *given)

    monkeypatch.setattr(Journal, "record", overtaken)
    code, _, err = world.run()
    assert (outcomes, code, "another process runs this release" in err) == ([0], 5, True), err
    before = contents(folder)
    assert (world.state(), world.charges()) == (State.PUBLISHED, 1)
    assert (world.run()[0], contents(folder)) == (0, before)


def test_two_runs_that_publish_at_once_publish_the_same(
    world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, create, outcomes = into(world, bucket, f"publish/{KEY}"), StoredFolder.create, []

    def joined(self: StoredFolder, name: str, content: bytes) -> bool:
        if name == "manifest.json":
            monkeypatch.setattr(StoredFolder, "create", create)
            outcomes.append(world.run()[0])
        return create(self, name, content)

    monkeypatch.setattr(StoredFolder, "create", joined)
    code, _, err = world.run()
    assert (outcomes, code, world.charges()) == ([0], 0, 1), err
    assert world.marquee("verify", bucket.url(f"publish/{KEY}"), "--ledger", "sqlite:///marquee.db")[0] == 0
    assert folder.read("_SUCCESS") == b""


def test_a_run_with_other_bytes_does_not_mix_with_one_that_has_begun(
    world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another number of synthetic rows is no other release, and gives other bytes."""
    folder, create, outcomes = into(world, bucket, f"mixed/{KEY}"), StoredFolder.create, []

    def joined(self: StoredFolder, name: str, content: bytes) -> bool:
        if name == "manifest.json":
            monkeypatch.setattr(StoredFolder, "create", create)
            world.set("output.synthetic_rows", 5)
            outcomes.append(world.run()[0])
        return create(self, name, content)

    monkeypatch.setattr(StoredFolder, "create", joined)
    code, _, err = world.run()
    assert (outcomes, code, "began to publish other bytes" in err) == ([0], 7, True), err
    assert json.loads(folder.read("certificate.json") or b"")["synthetic_rows"] == 5
    assert (world.run()[0], world.charges()) == (0, 1)


def test_a_manifest_that_the_ledger_does_not_know_is_not_completed(
    world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anybody's who can write to the folder: only a run that makes the same bytes goes on with it."""
    folder = into(world, bucket, f"unknown/{KEY}")

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jobs.ledger.SqlLedger.record_manifest", stopped)
        assert world.run()[0] == 130
    genuine = folder.read("manifest.json") or b""
    folder.delete(["manifest.json"])
    assert folder.create("manifest.json", json.dumps(json.loads(genuine)).encode())
    code, _, err = world.run()
    assert (code, list(folder.sizes())) == (7, ["manifest.json"]), err
    folder.delete(["manifest.json"])
    assert folder.create("manifest.json", genuine)
    assert (world.run()[0], world.charges(), folder.read("_SUCCESS")) == (0, 1, b"")


def test_answers_that_were_deleted_are_not_drawn_again(world: World, bucket: Store) -> None:
    folder = into(world, bucket, f"deleted/{KEY}")
    assert world.run()[0] == 0
    state, published = state_of(world, folder), list(folder.sizes())
    for gone in ("journal/000001.json", f"journal/{len(contents(state / 'journal')) - 1:06}.json"):
        kept = state.read(gone)
        state.delete([gone])
        folder.delete(published)
        code, _, err = world.run()
        assert (code, "lacks answers" in err, folder.sizes()) == (7, True, {}), err
        assert kept is not None
        assert state.create(gone, kept)
    assert (world.run()[0], world.charges()) == (0, 1)


def test_nothing_is_charged_where_conditional_puts_are_ignored(world: World, bucket: Store) -> None:
    """As a store of the time before conditional puts does."""
    with proxy(bucket.address, Faults(0, 0), dropped="if-none-match") as address:
        folder = into(world, bucket.at(address), f"ignored/{KEY}")
        code, _, err = world.run()
        assert (code, "want a store with conditional puts" in err, world.charges()) == (2, True, 0), err
        assert not list(state_of(world, folder).sizes().keys() - {"probe"})


def test_a_release_that_began_on_this_machine_is_published_in_a_store(
    world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its journal stays where it is."""

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jobs.release.run.write_answers", stopped)
        assert world.run()[0] == 130
    journal = world.folder / "out" / ".marquee" / world.job().release_id / "journal.jsonl"
    answers = journal.read_bytes()
    folder = into(world, bucket, f"from-here/{KEY}")
    code, _, err = world.run()
    assert (code, journal.read_bytes(), world.charges()) == (0, answers, 1), err
    assert (folder.read("_SUCCESS"), state_of(world, folder).sizes()) == (b"", {"probe": 5})


def test_an_emulator_without_google_s_xml_interface_is_refused(world: World, tmp_path: Path) -> None:
    """It cannot do what Google's store does; what matters is that nothing was charged."""
    with google_json(tmp_path) as store:
        into(world, store, KEY)
        code, _, err = world.run()
    assert (code, world.charges()) == (6, 0), err
    assert "gs://bucket/releases/people/2026-11 could not be reached in its store" in err


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        ("s3://nobody/releases/a{settings}", 2, "is in a bucket that does not exist; want the name of an existing"),
        ("s3://bucket/a?endpoint_override=127.0.0.1:9&scheme=http", 6, "check the endpoint, the credentials and the"),
        ("s3://bucket/a?endpoint=127.0.0.1:9", 2, "unknown setting endpoint; want endpoint_override, scheme, region"),
        ("s3://bucket{settings}", 2, "output.path is a whole bucket; want a folder in it"),
        ("s3://key:secret@bucket/a{settings}", 2, "want that, and credentials in the environment only"),
        ("s3://bucket/a//b/../c{settings}", 2, "holds the name '', which is none in every store"),
        ("hdfs://host/a", 2, "is in a store hdfs://; want a local folder, or one in s3://, gs:// or abfss://"),
        ("abfss://bucket/a", 2, "does not begin with abfss://container@account.dfs.core.windows.net/"),
    ],
)
def test_wrong_urls_are_refused_before_a_charge(
    world: World, bucket: Store, output: str, code: int, message: str
) -> None:
    world.set("output.path", output.replace("{settings}", bucket.settings))
    refused, _, err = world.run()
    assert (refused, message in err, world.charges()) == (code, True, 0), err
    assert "secret" not in err


def test_credentials_that_are_missing_are_named(world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    world.set("output.path", f"s3://bucket/none{bucket.settings}&region=eu-west-1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    code, _, err = world.run()
    assert (code, "cannot be opened without credentials; want those of AWS" in err, world.charges()) == (2, True, 0)


def test_an_output_among_stored_data_is_refused(world: World, bucket: Store) -> None:
    world.set("dataset.path", bucket.url("lake/people"))
    world.set("output.path", bucket.url("lake/people/out"))
    code, _, err = world.run()
    assert (code, "is inside the folder of the data" in err) == (2, True), err


def test_a_snapshot_cannot_change_the_settings_of_a_url(world: World, bucket: Store) -> None:
    world.set("dataset.snapshot", "a?endpoint_override=evil")
    world.set("output.path", "s3://bucket/{dataset.snapshot}")
    code, _, err = world.run()
    assert (code, "which is no name of a folder" in err) == (2, True), err


def test_the_library_is_an_extra(world: World, bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    into(world, bucket, f"extra/{KEY}")
    code, _, err = world.run()
    assert (code, "install marquee[objects]" in err, world.charges()) == (2, True, 0), err
    assert os.listdir(world.folder / "temporary") == []
