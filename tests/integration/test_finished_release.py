"""A finished release is recognised by its ledger and its whole folder alone; its input may be gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.releases import World, people, table_world


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A world whose release is published."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    assert world.run()[0] == 0
    return world


def add_people(table: World) -> None:
    pq.write_table(people(300, 100, np.random.default_rng(9)), table.folder / "data" / "part-3.parquet")


def test_other_input_for_a_lost_output_is_an_integrity_error(table: World) -> None:
    """The input of a release that must be made again is compared with the input that it was made from."""
    (table.folder / "out" / "people").rename(table.folder / "gone")
    add_people(table)
    before = table.files()
    code, _, err = table.run()
    assert code == 7
    assert "snapshot" in err
    assert table.files() == before


def test_other_input_for_a_finished_release_is_an_integrity_error(table: World) -> None:
    add_people(table)
    before = table.files()
    assert table.run()[0] == 7
    assert table.files() == before


def test_a_lost_output_is_written_again_after_an_upgrade_of_a_package(
    table: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate then names other versions, and its manifest is another one, which the ledger records."""
    folder = table.folder / "out" / "people"
    before = json.loads((folder / "certificate.json").read_text())
    shutil.rmtree(folder)
    with monkeypatch.context() as upgrade:
        upgrade.setattr("jobs.outputs.certificate.versions", lambda: before["versions"] | {"numpy": "99.0"})
        assert table.run()[0] == 0
    after = json.loads((folder / "certificate.json").read_text())
    assert after["versions"]["numpy"] == "99.0"
    assert {key for key in after if after[key] != before[key]} == {"versions"}
    assert table.run()[0] == 0
    ledger = f"sqlite:///{table.folder / 'marquee.db'}"
    assert table.marquee("verify", str(folder), "--ledger", ledger)[0] == 0
    assert table.charges() == 1


def remove_data(table: World) -> None:
    (table.folder / "data").rename(table.folder / "archived")


def empty_data(table: World) -> None:
    for path in (table.folder / "data").iterdir():
        path.unlink()


def spoil_data(table: World) -> None:
    (table.folder / "data" / "part-0.parquet").write_bytes(b"spoiled")


@pytest.mark.parametrize("change", [remove_data, empty_data, spoil_data], ids=lambda one: one.__name__)
def test_a_finished_release_needs_no_input(table: World, change: Callable[[World], None]) -> None:
    change(table)
    before = table.files()
    code, out, err = table.run()
    assert (code, out.splitlines()[0]) == (0, f"already published: {table.folder / 'out' / 'people'}"), err
    assert table.files() == before
    assert table.charges() == 1


def test_without_input_an_unmarked_folder_is_completed(table: World) -> None:
    before = table.files("out/people")
    (table.folder / "out/people/_SUCCESS").unlink()
    remove_data(table)
    assert table.run()[0] == 0
    assert table.files("out/people") == before


def test_without_input_and_output_nothing_is_found(table: World) -> None:
    (table.folder / "out" / "people").rename(table.folder / "gone")
    remove_data(table)
    assert table.run()[0] == 3
    assert not (table.folder / "out" / "people").exists()


def test_another_path_under_a_finished_id_is_refused(table: World) -> None:
    (table.folder / "data").rename(table.folder / "moved")
    table.set("dataset.path", "moved/*.parquet")
    code, _, err = table.run()
    assert code == 2
    assert "is bound to" in err


def test_a_glob_gives_a_dataset_no_second_name(table: World) -> None:
    table.set("output.path", "out/second")
    for path in ("da*/*.parquet", "data/part-*.parquet", "[d]ata/part-?.parquet"):
        table.budget(name=f"second {path}")
        table.set("dataset.name", f"second {path}")
        table.set("dataset.path", path)
        code, _, err = table.run()
        assert code == 2
        assert "belongs to dataset 'people'" in err
    assert table.charges() == 0


def test_a_damaged_manifest_and_a_file_too_many_are_integrity_errors(table: World) -> None:
    more = table.folder / "out/people/more.parquet"
    more.write_bytes(b"more")
    code, _, err = table.run()
    assert (code, "more.parquet is not listed in the manifest of the release" in err) == (7, True)
    more.unlink()
    manifest = table.folder / "out/people/manifest.json"
    manifest.write_text(json.dumps({"release_id": table.job().release_id}))
    code, _, err = table.run()
    assert (code, "manifest.json is not a manifest" in err) == (7, True)
