"""Releases for units of several columns: one unit for every order, by all names in ledger and certificate."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, NoBudgetError
from jobs.config import parse_config
from jobs.planning.job import job_of
from jobs.release.run import release
from tests.support.releases import LEDGER, World, table_world

UNIT = '["household", "person"]'


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """The table of a config, whose people are numbered anew in every household."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    for path in sorted((tmp_path / "data").glob("*.parquet")):
        rows = pq.read_table(path)
        households = pa.array([f"h{number // 3}" for number in range(rows.num_rows)])
        people = pa.array([number % 3 for number in range(rows.num_rows)])
        rows = rows.drop_columns(["person"]).append_column("person", people).append_column("household", households)
        pq.write_table(rows, path)
    world.set("dataset.unit", ["household", "person"])
    return world


def test_the_order_of_the_columns_makes_no_other_release(world: World) -> None:
    first = world.job()
    world.set("dataset.unit", ["person", "household"])
    assert world.job().release_id == first.release_id
    world.set("dataset.unit", UNIT)
    assert world.job().release_id == first.release_id
    world.set("dataset.unit", "household")
    assert world.job().release_id != first.release_id
    world.set("dataset.unit", ["household"])
    assert world.job().config.dataset.unit == "household"


def test_certificate_and_ledger_name_every_column(world: World) -> None:
    world.budget()
    made = release(world.job())
    assert not made.already
    certificate = json.loads((world.folder / "out" / "people" / "certificate.json").read_text())
    words = "columns 'household' and 'person' together"
    assert f"for the units of {words} (add_remove_unit)" in certificate["guarantee"]["promise"]
    assert certificate["public_facts"]["unit"] == UNIT
    assert certificate["public_facts"]["columns"] == ["household", "person", "sex", "work", "age", "home"]
    code, out, err = world.marquee("verify", "out/people", "--ledger", LEDGER)
    assert code == 0, out + err
    code, out, _ = world.marquee("budget", "show", "--ledger", LEDGER)
    assert f"for units of {words}" in out
    code, out, err = world.marquee("evaluate", "release.yaml")
    assert code == 0, err


def test_a_total_for_other_columns_refuses_and_says_how_to_go_on(world: World) -> None:
    world.budget()
    release(world.job())
    world.set("dataset.unit", "household")
    world.set("output.path", "out/another")
    with pytest.raises(NoBudgetError, match="columns 'household' and 'person' together") as caught:
        release(world.job())
    assert f"want dataset.unit: {UNIT}" in str(caught.value)


def test_a_budget_is_bound_to_the_columns_in_any_order(world: World) -> None:
    command = f"budget create --ledger {LEDGER} --dataset people --epsilon 1 --delta 1e-6"
    code, _, err = world.marquee(*shlex.split(command), "--unit", '["person","household"]')
    assert code == 0, err
    assert not release(world.job()).already


def test_validate_counts_rows_without_a_whole_unit(world: World) -> None:
    path = min((world.folder / "data").glob("*.parquet"))
    rows = pq.read_table(path)
    gaps = pa.array([None if number < 5 else f"h{number}" for number in range(rows.num_rows)])
    pq.write_table(rows.set_column(rows.schema.get_field_index("household"), "household", gaps), path)
    code, out, err = world.marquee("validate", "release.yaml")
    assert code == 0, err
    assert re.search(r"rows without a unit \(dropped\)\D+5\b", out)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ([], "list of different columns"),
        (["person", "person"], "list of different columns"),
        (["person", ""], "list of different columns"),
        ([1, 2], "dataset.unit"),
        ({"person": 1}, "dataset.unit"),
    ],
)
def test_what_is_no_list_of_columns_is_refused(world: World, unit: object, message: str) -> None:
    dataset = world.config["dataset"] | {"unit": unit}
    with pytest.raises(ConfigError, match=message):
        job_of(parse_config(world.config | {"dataset": dataset}), world.folder)


def test_a_missing_column_of_the_unit_is_named_before_the_charge(world: World) -> None:
    world.budget()
    world.set("dataset.unit", ["household", "flat"])
    with pytest.raises(Exception, match="column 'flat'"):
        release(world.job())
    assert world.charges() == 0
