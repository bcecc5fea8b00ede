"""One config for every day: what changes comes from the command line or the environment, and is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from tests.support.recorded_randomness import recorded
from tests.support.releases import LEDGER, World, people, table_world


@pytest.fixture
def daily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A config whose day is a variable, with a folder of data for each of two days."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    for day in (23, 24):
        folder = tmp_path / "data" / f"dt=2026-11-{day}"
        folder.mkdir()
        pq.write_table(people(0, 200, np.random.default_rng(day)), folder / "part-0.parquet")
    world.config["dataset"] |= {"snapshot": "${DAY}", "path": "data/*=${DAY}/*.parquet"}
    world.config["privacy"]["epsilon"] = 0.1
    world.set("output.path", "out/{dataset.name}/{dataset.snapshot}")
    world.budget()
    return world


def certificate(world: World, day: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.folder / "out/people" / day / "certificate.json").read_text())
    return found


def test_each_day_has_a_release_a_folder_and_a_charge(daily: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = daily.run()
    assert (code, daily.charges()) == (2, 0)
    assert "release.yaml: dataset.snapshot uses the environment variable DAY, which is not set" in err
    days = ["2026-11-23", "2026-11-24"]
    for day in days:
        monkeypatch.setenv("DAY", day)
        code, out, err = daily.run()
        assert code == 0, err
        assert out.startswith(f"published: {daily.folder / 'out' / 'people' / day}\n")
        assert daily.run()[1].startswith("already published")
    made = [certificate(daily, day) for day in days]
    assert (
        [one["dataset"]["snapshot"] for one in made] == [one["config"]["dataset"]["snapshot"] for one in made] == days
    )
    assert made[0]["release_id"] != made[1]["release_id"]
    assert (daily.charges(), SqlLedger(LEDGER).dataset("people", 1.0, 1e-6).path) == (2, str(daily.folder / "data"))
    code, _, _ = daily.marquee("verify", "out/people/2026-11-24", "--ledger", LEDGER)
    assert code == 0


def test_every_command_that_reads_a_config_takes_settings(daily: World) -> None:
    day = ("--set", "dataset.snapshot=2026-11-24", "--set", "dataset.path=data/*=2026-11-24/*.parquet")
    wanted = load_job("release.yaml", day[1::2]).release_id
    code, out, _ = daily.marquee("plan", "release.yaml", *day, "--json")
    assert (code, json.loads(out)["release_id"]) == (0, wanted)
    assert daily.marquee("run", "release.yaml", *day)[0] == 0
    code, out, _ = daily.marquee("status", "release.yaml", *day, "--json")
    assert (json.loads(out)["release_id"], json.loads(out)["state"]) == (wanted, "published")
    for command in ("validate", "evaluate"):
        code, out, _ = daily.marquee(command, "release.yaml", *day)
        assert code == 0
        assert "SENSITIVE" in out
    code, _, err = daily.marquee("generate", "rows", "release.yaml", "rows", "--rows", "5", *day)
    assert (code, "has no model.npz" in err) == (2, True)  # mwem keeps no graphical model, but the release was found.
    code, _, err = daily.marquee("run", "release.yaml", *day, "--set", "privacy.epsilno=2")
    assert (code, "--set privacy.epsilno: unknown key 'epsilno'; did you mean 'epsilon'?" in err) == (2, True)


def test_the_same_effective_config_is_the_same_release_with_the_same_bytes(daily: World) -> None:
    """Written in the file, taken from the environment, or set: with the same draws, not one byte differs."""
    literal = {"dataset.snapshot": "2026-11-23", "dataset.path": "data/*=2026-11-23/*.parquet", "output.path": "out/a"}
    by_option = _made(daily, [f"{key}={value}" for key, value in literal.items()])
    for key, value in literal.items():
        daily.set(key, value)
    as_written = _made(daily, [])
    assert by_option == as_written
    assert load_job("release.yaml", ["dataset.snapshot=2026-11-24"]).release_id != load_job("release.yaml").release_id


def _made(world: World, settings: list[str]) -> dict[str, bytes]:
    """The files of a release whose ledger is new and whose draws are those of every other call, and its id."""
    for name in ("out", LEDGER.removeprefix("sqlite:///")):
        place = world.folder / name
        if place.is_dir():
            place.rename(world.folder / f"{name} {len(list(world.folder.iterdir()))}")
        place.unlink(missing_ok=True)
    with recorded("scheduled"):
        world.budget()
        options = [word for setting in settings for word in ("--set", setting)]
        assert world.marquee("run", "release.yaml", *options)[0] == 0
    files = {name: content for name, content in world.files("out/a").items() if name.endswith(".parquet")}
    text = (world.folder / "out/a/certificate.json").read_text()
    cert = {key: value for key, value in json.loads(text).items() if key not in ("ledger_id", "reserved_at")}
    return files | {"certificate": json.dumps(cert).encode(), "id": cert["release_id"].encode()}
