"""An upgrade makes another release id for the same config, but never another charge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import jobs.planning.job
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.verification.manifest import sha256_of
from tests.support.ledgers import past_the_ledger
from tests.support.releases import LEDGER, World, table_world

Upgrade = Callable[[str], None]


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Upgrade:
    return lambda version: monkeypatch.setattr("jobs.planning.identity.VERSION", version)


@pytest.fixture
def table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], upgrade: Upgrade
) -> World:
    """A world whose release version 1.0 has published, with budget for another one; now version 1.1 is installed."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=2.0)
    upgrade("1.0")
    assert world.run()[0] == 0
    upgrade("1.1")
    return world


def charge_line(world: World) -> str:
    """What ``plan`` says, in both forms."""
    said = json.loads(world.marquee("plan", "release.yaml", "--json")[1])["charge"]
    assert f"charge     {said}" in world.marquee("plan", "release.yaml")[1].splitlines()
    return str(said)


def lose_the_folder(table: World) -> None:
    shutil.rmtree(table.folder / "out" / "people")


def test_what_another_version_has_published_is_not_charged_again(table: World) -> None:
    before = table.files("out")
    folder = table.folder / "out" / "people"
    assert charge_line(table) == f"none: already published by version 1.0: {folder}"
    for _ in range(2):
        code, out, _ = table.run()
        assert (code, out.splitlines()[0]) == (0, f"already published by version 1.0: {folder}")
    assert table.files("out") == before
    assert table.charges() == 1


def test_a_published_folder_elsewhere_is_found_by_its_record(table: World) -> None:
    table.set("output.path", "out/moved")
    code, out, _ = table.run()
    assert (code, out.splitlines()[0]) == (0, f"already published by version 1.0: {table.folder / 'out' / 'people'}")
    (table.folder / "out" / "people").rename(table.folder / "out" / "moved")
    code, out, _ = table.run()
    assert (code, out.splitlines()[0]) == (0, f"already published by version 1.0: {table.folder / 'out' / 'moved'}")
    assert table.charges() == 1


def test_a_downgrade_charges_nothing_either(table: World, upgrade: Upgrade) -> None:
    upgrade("0.99")
    assert table.run()[0] == 0
    assert table.charges() == 1


def test_a_release_whose_folder_is_gone_is_refused_until_the_operator_wants_it_again(table: World) -> None:
    lose_the_folder(table)
    assert "refused now: release" in charge_line(table)
    code, _, err = table.run()
    assert code == 4
    for word in ("version 1.0", "charged on 20", "out/people is gone", "folder restored", "marquee run --again"):
        assert word in err
    assert table.charges() == 1
    code, out, _ = table.marquee("run", "release.yaml", "--again")
    assert (code, out.splitlines()[0]) == (0, f"published: {table.folder / 'out' / 'people'}")
    assert table.charges() == 2
    assert charge_line(table) == "none: this release was charged already"
    for arguments in ([], ["--again"]):
        code, out, _ = table.marquee("run", "release.yaml", *arguments)
        assert (code, out.splitlines()[0]) == (0, f"already published: {table.folder / 'out' / 'people'}")
    assert table.charges() == 2
    history = table.marquee("budget", "history", "--ledger", LEDGER, "--dataset", "people")[1]
    first, second = [charge.release_id[:12] for charge in SqlLedger(LEDGER).history("people")]
    again = [line.split()[1] for line in history.splitlines() if f"again after {first} of another version" in line]
    assert again == [second]


def test_a_restored_folder_ends_the_refusal(table: World) -> None:
    (table.folder / "out" / "people").rename(table.folder / "backup")
    assert table.run()[0] == 4
    (table.folder / "backup").rename(table.folder / "out" / "people")
    assert table.run()[0] == 0
    assert table.charges() == 1


def test_a_run_that_another_version_did_not_finish_is_not_charged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], upgrade: Upgrade
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=2.0)
    upgrade("1.0")
    with monkeypatch.context() as fault:
        fault.setattr("jobs.release.run.write_answers", lambda *_: 1 / 0)
        assert world.run()[0] == 70
    upgrade("1.1")
    code, _, err = world.run()
    assert code == 4
    assert "has not finished; want version 1.0 to finish it" in err
    assert world.charges() == 1
    upgrade("1.0")
    assert world.run()[0] == 0
    upgrade("1.1")
    assert world.run()[0] == 0
    assert world.charges() == 1


def test_another_snapshot_is_another_release(table: World) -> None:
    table.set("dataset.snapshot", "2026-12")
    table.set("output.path", "out/december")
    assert charge_line(table).startswith("rho =")
    assert table.run()[0] == 0
    assert table.charges() == 2


def test_other_input_is_an_integrity_error_and_no_input_is_none(table: World) -> None:
    part = table.folder / "data" / "part-0.parquet"
    pq.write_table(pq.read_table(part).slice(0, 10), part)
    code, _, err = table.run()
    assert code == 7
    assert "made from other input files" in err
    (table.folder / "data").rename(table.folder / "archived")
    assert table.run()[0] == 0
    assert table.charges() == 1


def test_a_changed_folder_is_an_integrity_error(table: World) -> None:
    (table.folder / "out" / "people" / "answers.parquet").write_bytes(b"changed")
    assert table.run()[0] == 7


@pytest.mark.parametrize("version", ["0.6.0", "0.10.0"])
def test_releases_of_versions_that_recorded_no_identity_are_known_by_their_ids(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=2.0)
    identity = world.job().identity
    old_id = next(old for old in identity.older if identity.older[old] == version)
    with monkeypatch.context() as old:
        old.setattr(jobs.planning.job, "identity_of", lambda *_: replace(identity, release_id=old_id, older={}))
        assert world.run()[0] == 0
    in_old_form(world)
    past_the_ledger(LEDGER, "UPDATE releases SET version = NULL, identity = NULL, manifest_sha256 = NULL")
    code, out, _ = world.run()
    assert (code, out.splitlines()[0]) == (0, f"already published by version {version}: {tmp_path / 'out' / 'people'}")
    lose_the_folder(world)
    code, _, err = world.run()
    assert code == 4
    assert f"version {version}" in err
    assert world.charges() == 1


def in_old_form(world: World) -> None:
    """Replaces the certificate by one that this version cannot read."""
    folder = world.folder / "out" / "people"
    (folder / "certificate.json").write_text("{}")
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in manifest["files"]:
        file["bytes"] = (folder / file["path"]).stat().st_size
        file["sha256"] = sha256_of(folder / file["path"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_an_uncharged_plan_of_another_version_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], upgrade: Upgrade
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    upgrade("1.0")
    with monkeypatch.context() as fault:
        fault.setattr("jobs.release.input.open_engine", lambda *_: 1 / 0)
        assert world.run()[0] == 70
    assert world.state() is State.PLANNED
    upgrade("1.1")
    assert world.run()[0] == 0
    assert world.charges() == 1
