"""Files that attack: no value ends a run, no row changes how others are read, and one number is one unit."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
import yaml
from numpy.typing import NDArray
from pyarrow import feather, orc

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals, UnitCount
from jobs.planning.dataset import location_of
from pipelines.aggregators import aggregator_for
from pipelines.engines.local import LocalEngine
from pipelines.layout import TableLayout
from pipelines.source import footers, open_source
from tests.support.releases import World, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


def _rows(world: World) -> pa.Table:
    return pq.read_table(world.folder / "data")


def test_a_long_integer_in_csv_is_a_value_like_any_other(world: World) -> None:
    arrow_csv.write_csv(_rows(world), world.folder / "p.csv")
    with open(world.folder / "p.csv", "a") as file:
        file.write('900,"male","none",' + "9" * 5000 + ",true\n")
    world.set("dataset.path", "p.csv")
    code, _, err = world.run()
    assert code == 0, err


def test_text_that_is_no_utf8_in_feather_is_a_value_like_any_other(world: World) -> None:
    rows = _rows(world)
    work = rows["work"].to_pylist()
    texts = [b"\xff\xfe" if i == 7 else (None if v is None else v.encode()) for i, v in enumerate(work)]
    rows = rows.set_column(2, "work", pa.array(texts, pa.binary()).view(pa.string()))
    feather.write_feather(rows, str(world.folder / "p.feather"), compression="uncompressed")
    world.set("dataset.path", "p.feather")
    code, _, err = world.run()
    assert code == 0, err


def test_same_text_in_parquet(world: World) -> None:
    rows = _rows(world)
    work = rows["work"].to_pylist()
    texts = [b"\xff\xfe" if i == 7 else (None if v is None else v.encode()) for i, v in enumerate(work)]
    rows = rows.set_column(2, "work", pa.array(texts, pa.binary()).view(pa.string()))
    pq.write_table(rows, world.folder / "p.parquet")
    world.set("dataset.path", "p.parquet")
    code, _, err = world.run()
    assert code == 0, err


def test_a_surrogate_in_json_is_no_crash(world: World) -> None:
    lines = [json.dumps(row) for row in _rows(world).to_pylist()]
    lines.append('{"person": 900, "sex": "male", "work": "\\ud800", "age": 3, "home": true}')
    (world.folder / "p.jsonl").write_text("\n".join(lines) + "\n")
    world.set("dataset.path", "p.jsonl")
    code, _, err = world.run()
    assert code in (0, 3), err


def test_a_long_heading_is_no_crash(world: World) -> None:
    (world.folder / "p.csv").write_text("person,sex,work,age,home," + "x" * 200_000 + "\n1,male,none,3,true,1\n")
    world.set("dataset.path", "p.csv")
    code, _, err = world.run()
    assert code in (0, 3), err


def test_date64_with_a_time(world: World) -> None:
    rows = _rows(world)
    rows = rows.set_column(3, "age", pa.array(np.arange(300) * 86_400_000 + 1, pa.int64()).view(pa.date64()))
    feather.write_feather(rows, str(world.folder / "p.feather"), compression="uncompressed")
    schema = yaml.safe_load((world.folder / "people.schema.yaml").read_text())
    edges = [dt.date(1970, 1, 1), dt.date(1970, 2, 1), dt.date(1971, 1, 1)]
    schema["attributes"][2] = {"name": "age", "type": "date", "edges": edges, "null": False}
    (world.folder / "people.schema.yaml").write_text(yaml.safe_dump(schema))
    world.set("dataset.path", "p.feather")
    code, _, err = world.run()
    assert code == 0, err


def test_names_that_collide_with_columns_of_answers(world: World) -> None:
    schema = yaml.safe_load((world.folder / "people.schema.yaml").read_text())
    schema["attributes"][0] |= {"name": "query", "column": "sex"}
    schema["attributes"][1] |= {"name": "query_attribute", "column": "work"}
    (world.folder / "people.schema.yaml").write_text(yaml.safe_dump(schema))
    world.save()
    code, _, err = world.run()
    code2, _, err = world.marquee("verify", "out/people", "--ledger", "sqlite:///marquee.db")
    pair = ("table", "out/people", "query", "query_attribute")
    for command in (("table", "out/people"), pair, ("report", "out/people")):
        again, _, err = world.marquee(*command)
        assert again == 0, err
    assert (code, code2) == (0, 0)


def test_a_timestamp_of_orc_is_refused_by_its_type_before_the_charge(world: World) -> None:
    rows = _rows(world)
    days = [dt.datetime(9999, 12, 31) if i == 7 else dt.datetime(2020, 1, 1) for i in range(300)]
    rows = rows.set_column(3, "age", pa.array(days, pa.timestamp("us")))
    orc.write_table(rows, str(world.folder / "p.orc"))
    schema = yaml.safe_load((world.folder / "people.schema.yaml").read_text())
    edges = [dt.date(1970, 1, 1), dt.date(2010, 2, 1), dt.date(2030, 1, 1)]
    schema["attributes"][2] = {"name": "age", "type": "date", "edges": edges, "null": False}
    (world.folder / "people.schema.yaml").write_text(yaml.safe_dump(schema))
    world.set("dataset.path", "p.orc")
    code, _, err = world.run()
    assert (code, world.charges()) == (3, 0)
    assert "is a timestamp of ORC" in err


def _counted(world: World) -> int:
    job = world.job()
    source = open_source(location_of(job.config.dataset), job.layout, b"0" * 16)
    return int(LocalEngine().reduce(source, aggregator_for(UnitCount(), source.layout))[0])


@pytest.mark.parametrize("name", ["p.jsonl", "p"])
def test_one_number_is_one_unit(world: World, name: str) -> None:
    """Pandas writes 7 as 7.0 into the file in which another row has no person."""
    if name == "p.jsonl":
        texts = ["7", "7.0", "7e0", '"7"']
        lines = [f'{{"person": {t}, "sex": "male", "work": "none", "age": 3, "home": true}}' for t in texts]
        (world.folder / name).write_text("\n".join(lines))
    else:
        (world.folder / name).mkdir()
        base = {"sex": "male", "work": "none", "age": 3, "home": True}
        pd.DataFrame([{"person": 7, **base}]).to_csv(world.folder / name / "1.csv", index=False)
        rows = [{"person": 7, **base}, {"person": None, **base}]
        pd.DataFrame(rows).to_csv(world.folder / name / "2.csv", index=False)
    world.set("dataset.path", name)
    assert _counted(world) == 1


def test_a_file_is_hashed_as_it_was_checked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes between the check and the hash is charged without a check."""
    arrow_csv.write_csv(_rows(world), world.folder / "p.csv")
    checked = footers.check_rows

    def then_changed(*arguments: object) -> None:
        checked(*arguments)
        if world.charges() == 0:
            with open(world.folder / "p.csv", "a") as file:
                file.write("900,male\n")

    monkeypatch.setattr(footers, "check_rows", then_changed)
    world.set("dataset.path", "p.csv")
    world.run()
    assert world.charges() == 0


@pytest.mark.parametrize("csv", [{"encoding": "latin-1"}, None])
def test_a_budget_moves_with_its_csv(world: World, csv: object) -> None:
    """The files at the new path are read without dataset.format and dataset.csv."""
    rows = _rows(world)
    work = ["öffentlich" if i % 2 else v for i, v in enumerate(rows["work"].to_pylist())]
    rows = rows.set_column(2, "work", pa.array(work))
    name = "p.csv" if csv else "p.txt"
    for place in ("old", "new"):
        (world.folder / place).mkdir()
        arrow_csv.write_csv(rows, world.folder / "u.csv")
        text = (world.folder / "u.csv").read_text(encoding="utf-8")
        (world.folder / place / name).write_text(text, encoding="latin-1" if csv else "utf-8")
    world.set("dataset.path", f"old/{name}")
    world.set("dataset.format", "csv")
    if csv:
        world.set("dataset.csv", csv)
    assert world.run()[0] == 0
    code, _, err = world.marquee("budget", "move", "--dataset", "people", "--path", f"new/{name}", "--reason", "disk")
    assert code == 0, err


def test_one_unit_of_json_does_not_change_the_rows_of_others(world: World) -> None:
    """A file in work=none/ without a key work: one row with that key turns the work of every other unit into null."""
    (world.folder / "j" / "work=none").mkdir(parents=True)
    file = world.folder / "j" / "work=none" / "a.jsonl"
    lines = [f'{{"person": {n}, "sex": "male", "age": 3, "home": true}}\n' for n in range(200)]
    world.set("dataset.path", "j")

    def histogram() -> NDArray[np.int64]:
        job = world.job()
        assert isinstance(job.layout, TableLayout)
        source = open_source(location_of(job.config.dataset), job.layout, b"0" * 16)
        domain = job.layout.schema.domain
        queries = Marginals(domain, (("work",),))
        aggregator = aggregator_for(QueryAnswers(queries), source.layout)
        return np.asarray(aggregator.extract(LocalEngine().reduce(source, aggregator)))

    file.write_text("".join(lines))
    before = histogram()
    file.write_text("".join(lines) + '{"person": 900, "sex": "male", "age": 3, "home": true, "work": "public"}\n')
    after = histogram()
    assert np.abs(after - before).sum() <= 1
