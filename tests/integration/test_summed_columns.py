"""Releases about sums of columns: from files to rows, the same as if the sums were columns of the data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
import yaml

from dpcore.errors import InputError
from dpcore.evaluation import exact_answers
from jobs.release.run import build_workload, release
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import SALT_BYTES, open_source
from tests.support.releases import LEDGER, World, table_world

SUMS = [
    {"name": "stay", "type": "integer", "sum_of": {"left": 1, "came": -1}, "dates": True, "edges": [0, 1, 3, 7, 30]},
    {"name": "gap", "type": "integer", "sum_of": {"age": 1, "other": -1}, "absolute": True, "edges": [0, 5, 20, 99]},
]
PLAIN = [
    {"name": "stay", "type": "integer", "column": "days", "edges": [0, 1, 3, 7, 30]},
    {"name": "gap", "type": "integer", "column": "years", "edges": [0, 5, 20, 99]},
]


def stays(rows: int = 300) -> pa.Table:
    """Dates and ages, some of them null, and the sums as columns too."""
    draw = np.random.default_rng(5)
    came, days = 20_000 + draw.integers(0, 90, rows), draw.integers(0, 12, rows)
    age, other = draw.integers(0, 99, (2, rows))
    unknown = draw.random((2, rows)) < 0.1
    both = ~unknown.any(axis=0)
    return pa.table(
        {
            "person": np.arange(rows),
            "came": pa.array(came, pa.int32(), mask=unknown[0]).cast(pa.date32()),
            "left": pa.array(came + days, pa.int32(), mask=unknown[1]).cast(pa.date32()),
            "age": pa.array(age, mask=unknown[0]),
            "other": pa.array(other, mask=unknown[1]),
            "days": pa.array(days, mask=~both),
            "years": pa.array(np.abs(age - other), mask=~both),
        }
    )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    (tmp_path / "stays").mkdir()
    pq.write_table(stays(), tmp_path / "stays" / "a.parquet")
    world.config["dataset"]["path"] = "stays/*"
    world.config["mechanism"] = {"name": "gaussian_pgm"}
    world.set("workload", {"marginals": {"order": 2, "prefix": ["stay"]}})
    described(world, SUMS)
    return world


def described(world: World, attributes: list[dict[str, object]]) -> None:
    document = {"version": 1, "attributes": attributes}
    (world.folder / world.config["dataset"]["schema"]).write_text(yaml.safe_dump(document))


def exact(world: World) -> list[int]:
    job = world.job()
    statistics = EngineStatistics(LocalEngine(), open_source(job.config.dataset.path, job.layout, bytes(SALT_BYTES)))
    counted: list[int] = exact_answers(statistics, build_workload(job).queries).tolist()
    return counted


def test_answers_are_those_of_columns_that_hold_the_sums(world: World) -> None:
    found = exact(world)
    described(world, PLAIN)
    assert found == exact(world)
    assert len(set(found)) > 5


def test_text_files_give_the_same_answers(world: World) -> None:
    found = exact(world)
    (world.folder / "stays" / "a.parquet").unlink()
    arrow_csv.write_csv(stays(), world.folder / "stays" / "a.csv")
    assert exact(world) == found


def test_certificate_schema_and_rows_have_the_sums_and_all_checks_pass(world: World) -> None:
    world.budget()
    release(world.job())
    folder = world.folder / world.config["output"]["path"]
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["public_facts"]["columns"] == ["person", "came", "left", "age", "other"]
    assert certificate["schema"]["attributes"][0]["sum_of"] == [["came", -1], ["left", 1]]
    (rows,) = (folder / "synthetic").glob("*.parquet")
    assert pq.read_schema(rows).names == ["person", "stay", "gap"]
    code, out, err = world.marquee("verify", str(folder), "--ledger", LEDGER)
    assert code == 0, out + err
    code, out, err = world.marquee("evaluate", "release.yaml")
    assert code == 0, err
    assert "synthetic" in out


def test_the_schema_of_a_release_describes_the_same_data(world: World) -> None:
    world.budget()
    release(world.job())
    found, folder = exact(world), world.folder / world.config["output"]["path"]
    world.set("dataset.schema", str(folder / "schema.json"))
    assert exact(world) == found


def test_validation_counts_sums_that_are_null_or_clamped(world: World) -> None:
    code, out, err = world.marquee("validate", "release.yaml", "--json")
    assert code == 0, err
    columns = {column["attribute"]: column for column in json.loads(out)["columns"]}
    table = stays()
    assert columns["stay"]["nulls"] == table["days"].null_count
    assert (columns["stay"]["out_of_range"], columns["gap"]["nulls"]) == (0, table["years"].null_count)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"dates": False}, "column 'came' of .* has type date32.*; want an integer, a float or a decimal"),
        ({"sum_of": {"days": 1}}, "column 'days' of .* has type int64; want a date or a timestamp"),
        ({"sum_of": {"gone": 1}}, "no column 'gone'"),
    ],
)
def test_a_column_that_cannot_be_summed_so_is_refused(world: World, change: dict[str, object], wanted: str) -> None:
    described(world, [SUMS[0] | change, SUMS[1]])
    world.budget()
    with pytest.raises(InputError, match=wanted):
        release(world.job())
    assert world.charges() == 0
