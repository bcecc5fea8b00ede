"""A config means one release and one ledger from every working folder, and another ledger's release is refused.

Up to version 0.10, ledger and output were relative to the working folder. Run from elsewhere, a config therefore found
no ledger, was told to create one, and drew the same release a second time, uncharged in the first ledger.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jobs.ledger import SqlLedger
from jobs.release import publish
from tests.support.releases import World, table_world


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    world = table_world(tmp_path / "project", capsys)
    world.budget()
    return world


def test_a_run_from_elsewhere_is_the_same_release(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack "double draw by working folder": failed while ledger and output were relative to the working folder."""
    assert table.run()[0] == 0
    before = table.files()
    monkeypatch.chdir(table.folder.parent / "elsewhere")
    config = str(table.folder / "release.yaml")
    code, out, err = table.marquee("run", config)
    assert (code, out.splitlines()[0]) == (0, f"already published: {table.folder / 'out' / 'people'}"), err
    for command in ("status", "validate", "plan"):
        assert table.marquee(command, config)[0] == 0
    assert table.files() == before
    assert list(Path.cwd().iterdir()) == []


def test_plan_and_budget_print_the_absolute_ledger(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = f"sqlite:///{table.folder / 'marquee.db'}"
    assert f" at {ledger}\n" in table.marquee("budget", "show")[1]
    monkeypatch.chdir(table.folder.parent / "elsewhere")
    config = str(table.folder / "release.yaml")
    assert f"ledger     {ledger}, id " in table.marquee("plan", config)[1]
    assert json.loads(table.marquee("plan", config, "--json")[1])["ledger"] == ledger
    (table.folder / "marquee.db").unlink()
    code, _, err = table.marquee("run", config)
    assert (code, f"there is no ledger at {ledger};" in err) == (4, True), err


def test_the_ledger_of_an_older_layout_of_folders_is_named(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config in a folder of its own, whose ledger and data versions up to 0.10 found in the working folder."""
    configs = table.folder / "configs"
    configs.mkdir()
    for name in ("release.yaml", "people.schema.yaml"):
        (table.folder / name).rename(configs / name)
    code, out, err = table.marquee("run", "configs/release.yaml")
    assert (code, out) == (2, "")
    assert (
        f"there is no {configs}/data/*.parquet, but there is {table.folder}/data/*.parquet in the working folder" in err
    )
    monkeypatch.chdir(table.folder.parent)
    code, _, err = table.marquee("run", "project/configs/release.yaml")
    assert (code, f"there is no ledger at sqlite:///{configs}/marquee.db" in err) == (4, True)


def test_a_release_in_the_output_of_an_older_version_is_named(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output lay in the working folder: without a word, an upgrade would draw and charge the release again."""
    assert table.run()[0] == 0
    elsewhere = table.folder.parent / "working"
    elsewhere.mkdir()
    (table.folder / "out").rename(elsewhere / "out")
    monkeypatch.chdir(elsewhere)
    code, _, err = table.marquee("run", str(table.folder / "release.yaml"))
    assert (code, f"there is a release in {elsewhere}/out/people, in the working folder" in err) == (2, True), err


@pytest.mark.parametrize("trace", ["output", "folder beside the output", "state folder"])
def test_a_release_of_another_ledger_is_refused(table: World, trace: str) -> None:
    """Attack "second ledger": the state folder and a renamed output drew a second time under a new ledger."""
    assert table.run()[0] == 0
    job = table.job()
    state = publish.state_folder(job.output, job.release_id)
    folder = {"output": job.output, "folder beside the output": job.output.with_name("kept"), "state folder": state}[
        trace
    ]
    if trace != "output":
        job.output.rename(job.output.with_name("kept"))
    if trace == "state folder":
        shutil.rmtree(job.output.with_name("kept"))
    else:
        shutil.rmtree(state)
    SqlLedger("sqlite:///other.db").create_dataset("people", 1.0, 1e-6)
    table.set("privacy.ledger", "sqlite:///other.db")
    before = table.files()
    code, out, err = table.run()
    assert (code, out) == (7, ""), err
    assert (
        f"{folder} holds release {job.release_id[:12]}, but ledger sqlite:///{table.folder}/other.db has no record"
        in err
    )
    assert SqlLedger("sqlite:///other.db").history("people") == []
    assert table.files() == before


def test_a_run_that_was_refused_before_its_charge_leaves_no_trace(table: World) -> None:
    """Only a lock is left, so another ledger may make the release."""
    table.set("privacy.epsilon", 2)
    assert table.run()[0] == 4
    table.budget(epsilon=2, name="other")
    SqlLedger("sqlite:///other.db").create_dataset("people", 2.0, 1e-6)
    table.set("privacy.ledger", "sqlite:///other.db")
    assert table.run()[0] == 0
