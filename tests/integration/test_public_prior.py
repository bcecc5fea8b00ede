"""Releases with a public table, by the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import marquee
from tests.support.releases import LEDGER, World, table_world

ROWS: dict[str, list[Any]] = {
    "sex": ["female", "male"] * 40,
    "work": ["none", "public", None, "private"] * 20,
    "age": list(range(80)),
    "home": [True, None, False, True] * 20,
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.set("mechanism", {"name": "clique_tree", "public": "before.parquet"})
    pq.write_table(pa.table(ROWS), "before.parquet")
    world.budget()
    return world


def test_the_release_names_its_public_table_and_is_verified(made: World) -> None:
    code, out, _ = made.marquee("plan", "release.yaml")
    assert code == 0
    assert "a public table of 80 rows is prior knowledge" in out
    assert out.splitlines()[-1] == "No budget was spent, and no private data were read."
    assert made.run()[0] == 0
    certificate = json.loads(Path("out/people/certificate.json").read_text())
    assert certificate["hashes"]["public_files"] == made.job().files.digests
    assert list(certificate["hashes"]["public_files"]) == ["mechanism.public"]
    assert any("a public table of 80 rows" in note for note in certificate["notes"])
    assert "before.parquet" not in json.dumps(certificate)
    code, out, _ = made.marquee("verify", "out/people")
    assert code == 0, out
    assert "not checked" not in out.split("answers of the model")[1].split("\n")[0]


def test_another_table_is_another_release_and_another_order_is_not(made: World) -> None:
    assert made.run()[0] == 0
    pq.write_table(pa.table({name: values[::-1] for name, values in ROWS.items()}), "before.parquet")
    assert made.run()[1].startswith("already published")
    assert made.charges() == 1
    pq.write_table(pa.table(ROWS).slice(1), "before.parquet")
    assert made.run()[0] == 2  # The folder holds another release.
    assert made.charges() == 1


def test_an_invalid_table_is_refused_before_anything_is_read(made: World) -> None:
    pq.write_table(pa.table(ROWS | {"sex": ["robot"] * 80}), "before.parquet")
    code, out, said = made.run()
    assert (code, out) == (2, "")
    assert "column 'sex' is 'robot' in row 1; want a value of the schema" in said
    assert made.charges() == 0


def test_no_plan_says_that_the_public_table_was_not_read(made: World) -> None:
    for options in ((), ("--compare", "--plan-seconds", "0.1"), ("--errors", "--plan-seconds", "0.1")):
        code, out, _ = made.marquee("plan", "release.yaml", *options)
        assert code == 0
        assert "no data were read" not in out
    made.set("mechanism", {"name": "hdmm"})
    code, out, _ = made.marquee("plan", "release.yaml", "--errors")
    assert "no data were read." in out.splitlines()[-1]


@pytest.mark.parametrize("public", ["before.parquet", Path("before.parquet")], ids=["text", "path"])
def test_python_makes_the_same_release(made: World, public: str | Path) -> None:
    plan = marquee.plan(
        "data/*.parquet", unit="person", workload={"marginals": {"order": 2}}, epsilon=1.0, delta=1e-6, name="people",
        snapshot="2026-11", schema="people.schema.yaml", ledger=LEDGER,
        mechanism={"name": "clique_tree", "public": public},
    )  # fmt: skip
    assert plan.release_id == made.job().release_id
    assert str(plan).endswith("no private data were read.")
