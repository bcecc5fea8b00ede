"""Releases with a store of exact statistics: the same bytes as without, from the new files alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.outputs.certificate_format import parse_certificate
from jobs.planning import engines
from jobs.verification.findings import Outcome
from jobs.verification.promises import promise_findings
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import TaskEngine
from pipelines.statistics_store.folder import entries
from tests.support.incremental import KEY, KEY_TEXT, WatchedEngine
from tests.support.recorded_randomness import recorded
from tests.support.releases import World, baskets_world, people, table_world

STORE = {"path": "kept"}  # Never changed: tests set copies of it.


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARQUEE_STORE_KEY", KEY_TEXT)
    made = table_world(tmp_path, capsys)
    made.config["dataset"]["clustered_by_unit"] = True
    made.set("engine.incremental", dict(STORE))
    made.budget(epsilon=4.0)
    return made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> WatchedEngine:
    """The engine inside the store, also in the second after a file was written."""
    engine = WatchedEngine(LocalEngine(threads=2))
    monkeypatch.setattr(engines, "_open_engine", lambda choice, frame: engine)
    opened = engines.with_store

    def at_once(inner: TaskEngine, *arguments: object) -> TaskEngine:
        made = opened(inner, *arguments)
        made._quiet_seconds = 0.0
        return made

    monkeypatch.setattr(engines, "with_store", at_once)
    return engine


def made(world: World, snapshot: str, store: bool) -> dict[str, bytes]:
    """The files of a new release, from the same draws whatever the store."""
    world.config.get("engine", {}).pop("incremental", None)
    if store:
        world.set("engine.incremental", dict(STORE))
    world.set("dataset.snapshot", snapshot)
    world.set("output.path", f"out-{store}/{snapshot}")
    ledger = world.folder / "marquee.db"
    before = ledger.read_bytes()
    with recorded(snapshot):
        code, _, err = world.run()
    assert code == 0, err
    if not store:  # The release with a store is to be a first one too.
        ledger.write_bytes(before)
    return {
        name.partition("/")[2].partition("/")[2]: content
        for name, content in world.files(f"out-{store}/{snapshot}").items()
    }


def test_every_day_gives_the_bytes_of_a_release_without_store_from_new_files_alone(
    world: World, watched: WatchedEngine
) -> None:
    def day_is(snapshot: str, *counted: str) -> None:
        plain = made(world, snapshot, store=False)
        watched.taken()
        kept = made(world, snapshot, store=True)
        assert set(watched.taken()[0]) == set(counted)
        assert set(plain) == set(kept)
        different = {name for name in plain if plain[name] != kept[name]}
        assert different <= {"certificate.json", "manifest.json", "_SUCCESS"}
        texts = [json.loads(files["certificate.json"]) for files in (plain, kept)]
        assert "earlier runs" in texts[1]["dataset"].pop("statistics_store")
        for text in texts:
            text.pop("reserved_at")
        assert texts[0] == texts[1]

    data = world.folder / "data"
    generator = np.random.default_rng(5)
    world.config["mechanism"] = {"name": "gaussian"}
    day_is("first", "part-0.parquet", "part-1.parquet", "part-2.parquet")
    pq.write_table(people(300, 100, generator), data / "part-3.parquet")
    day_is("second", "part-3.parquet")
    pq.write_table(people(100, 90, generator), data / "part-1.parquet")
    day_is("third", "part-1.parquet")
    (data / "part-0.parquet").unlink()
    day_is("fourth")


def test_units_of_several_columns_are_kept_like_others(world: World, watched: WatchedEngine) -> None:
    def in_households(rows: pa.Table) -> pa.Table:
        person = rows["person"].to_numpy()
        rows = rows.drop_columns(["person"]).append_column("household", pa.array([f"h{n // 3}" for n in person]))
        return rows.append_column("number", pa.array(person % 3))

    for path in sorted((world.folder / "data").glob("*.parquet")):
        pq.write_table(in_households(pq.read_table(path)), path)
    world.config["mechanism"] = {"name": "gaussian"}
    world.set("dataset.name", "households")
    world.set("dataset.unit", ["household", "number"])
    world.budget(epsilon=4.0)
    for snapshot, counted in (
        ("first", ["part-0.parquet", "part-1.parquet", "part-2.parquet"]),
        ("second", ["part-3.parquet"]),
    ):
        plain = made(world, snapshot, store=False)
        watched.taken()
        kept = made(world, snapshot, store=True)
        assert watched.taken()[0] == counted
        assert kept["answers.parquet"] == plain["answers.parquet"]
        pq.write_table(
            in_households(people(300, 100, np.random.default_rng(5))), world.folder / "data" / "part-3.parquet"
        )


def test_an_adaptive_mechanism_finds_what_was_asked_before(world: World, watched: WatchedEngine) -> None:
    """MWEM selects other marginals when its noise is another, from the same exact answers."""
    plain = made(world, "again", store=False)
    watched.taken()
    kept = made(world, "again", store=True)
    assert kept["answers.parquet"] == plain["answers.parquet"]
    assert watched.taken()[0]
    code, _, err = world.marquee("evaluate", "release.yaml")
    assert code == 0, err
    watched.taken()
    world.set("dataset.snapshot", "other draws")
    world.set("output.path", "out-True/other")
    assert world.run()[0] == 0
    assert watched.taken() == ([], [])
    text = kept["certificate.json"].decode()
    assert not [
        finding for finding in promise_findings(parse_certificate(text)[0]) if finding.outcome is Outcome.FAILED
    ]
    forged = text.replace("may come from an encrypted store", "come from the files")
    assert [finding for finding in promise_findings(parse_certificate(forged)[0]) if finding.outcome is Outcome.FAILED]
    code, out, err = world.marquee("verify", "out-True/again", "--ledger", "sqlite:///marquee.db")
    assert code == 0, out + err


def test_baskets_are_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], watched: WatchedEngine
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARQUEE_STORE_KEY", KEY_TEXT)
    world = baskets_world(tmp_path, capsys)
    world.config["dataset"]["clustered_by_unit"] = True
    world.budget(epsilon=50.0)
    plain = made(world, "only", store=False)
    watched.taken()
    assert made(world, "only", store=True)["answers.parquet"] == plain["answers.parquet"]


def test_plan_names_the_store_and_asks_for_no_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = json.loads(world.marquee("plan", "release.yaml", "--json")[1])
    monkeypatch.delenv("MARQUEE_STORE_KEY")
    world.set("engine.incremental", {**STORE, "key_command": ["touch", "called"], "keep_days": 7})
    code, out, err = world.marquee("plan", "release.yaml")
    assert code == 0, err
    (line,) = (line for line in out.splitlines() if line.startswith("store "))
    assert "each file" in line
    assert f"{world.folder / 'kept'} for 7 days" in line
    assert not (world.folder / "called").exists()
    assert not (world.folder / "kept").exists()
    world.config["engine"].pop("incremental")
    world.save()
    without = json.loads(world.marquee("plan", "release.yaml", "--json")[1])
    assert without["statistics_store"] is None
    assert without["release_id"] == plain["release_id"]


def _command(*body: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(body)]


def test_a_command_gives_the_key(world: World, monkeypatch: pytest.MonkeyPatch, watched: WatchedEngine) -> None:
    made(world, "first", store=True)
    monkeypatch.delenv("MARQUEE_STORE_KEY")
    code, _, err = world.marquee("run", "release.yaml", "--set", "dataset.snapshot=x", "--set", "output.path=out/x")
    assert code == 2
    assert "engine.incremental has no key; want 32 random bytes in base64" in err
    watched.taken()
    world.config["engine"]["incremental"] = {**STORE, "key_command": _command(f"print({KEY_TEXT!r})")}
    world.set("dataset.snapshot", "second")
    world.set("output.path", "out/second")
    world.set("mechanism", {"name": "gaussian"})
    code, _, err = world.run()
    assert code == 0, err
    assert KEY_TEXT not in err
    kept = {entry.path for entry in entries(world.folder / "kept")}
    world.set("dataset.snapshot", "third")
    world.set("output.path", "out/third")
    assert world.run()[0] == 0
    assert {entry.path for entry in entries(world.folder / "kept")} == kept  # It was the same key.


@pytest.mark.parametrize(("command", "code", "words"), [
    (_command("print('short')"), 2, "the output of engine.incremental.key_command is no key of a statistics store"),
    (_command("import sys; sys.exit('secret 31337')"), 6, "ended with exit code 1"),
    (["no-such-program"], 2, "cannot be run (No such file or directory)"),
])  # fmt: skip
def test_a_command_without_key_is_refused_before_any_charge(
    world: World, command: list[str], code: int, words: str
) -> None:
    world.set("engine.incremental", {**STORE, "key_command": command})
    found, _, err = world.run()
    assert (found, world.charges()) == (code, 0)
    assert words in err
    assert "marquee.db" not in err


@pytest.mark.parametrize("key", ["", "not base64!", "AAAA", KEY_TEXT + "AAAA", KEY.hex()])
def test_a_wrong_key_is_refused_without_being_shown(world: World, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("MARQUEE_STORE_KEY", key)
    code, _, err = world.run()
    assert (code, world.charges()) == (2, 0)
    assert "want 32 random bytes in base64, as openssl rand -base64 32 prints them" in err
    assert not key or key not in err


@pytest.mark.parametrize(("change", "words"), [
    (lambda w: w.set("dataset.clustered_by_unit", False), "want dataset.clustered_by_unit: true"),
    (lambda w: w.set("engine.incremental.path", "out"), "want two folders of which neither is in the other"),
    (lambda w: w.set("engine.incremental.path", "out/people/kept"), "want two folders"),
    (lambda w: w.set("engine.incremental.path", "s3://bucket/kept"), "engine.incremental.path is a URL; want a folder"),
    (lambda w: w.set("engine.incremental.group_by", "day"), "engine.incremental.group_by is 'day'; want"),
    (lambda w: w.set("engine.incremental.key_command", []), "engine.incremental.key_command is []; want at least one"),
    (lambda w: (w.folder / "kept").mkdir(mode=0o755), "want a folder of your own with mode 0700: chmod 700"),
])  # fmt: skip
def test_what_no_store_can_be_is_refused_before_any_charge(
    world: World, change: Callable[[World], object], words: str
) -> None:
    os.umask(0o022)
    change(world)
    code, _, err = world.run()
    assert (code, world.charges()) == (2, 0)
    assert words in err


def test_operators_see_and_clean_the_store(world: World) -> None:
    for file in (world.folder / "data").iterdir():
        os.utime(file)
    store = world.folder / "kept"
    code, _, err = world.marquee("store", "status", str(store))
    assert code == 2
    assert "cannot be opened (No such file or directory); want an existing folder" in err
    store.mkdir(mode=0o700)
    code, out, err = world.marquee("store", "status", str(store), "--json")
    assert (code, json.loads(out)["entries"]) == (0, 0)
    from tests.support.incremental import store_in

    kept = store_in(world.folder)
    kept.put(kept.name("counts", []), b"1234")
    code, out, err = world.marquee("store", "status", str(kept.path), "--json")
    facts = json.loads(out)
    assert (code, next(iter(facts)), facts["entries"]) == (0, "sensitive", 1)
    assert "SENSITIVE: stdout contains the number and sizes of kept exact statistics" in err
    code, out, _ = world.marquee("store", "clean", str(kept.path))
    assert (code, len(list(entries(kept.path)))) == (0, 1)
    code, out, _ = world.marquee("store", "clean", str(kept.path), "--keep-days", "0")
    assert (code, len(list(entries(kept.path)))) == (0, 0)
    assert out == f"Removed all entries of any age from {kept.path}.\n"


def test_a_published_release_needs_no_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.run()[0] == 0
    monkeypatch.delenv("MARQUEE_STORE_KEY")
    code, out, err = world.run()
    assert code == 0, err
    assert out.startswith("already published")
