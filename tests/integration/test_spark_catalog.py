"""The command line and a table of Spark's catalog; the catalogs of other sessions are in test_catalogs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.engines.spark import SparkEngine
from pipelines.row_filter import Condition, RowFilter
from tests.support.engines import spark_engine
from tests.support.releases import LEDGER, World, table_world

pytestmark = pytest.mark.spark


@pytest.fixture
def engine() -> SparkEngine:
    engine = spark_engine()
    assert isinstance(engine, SparkEngine)
    return engine


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: SparkEngine
) -> Iterator[World]:
    """300 people in an external table of three files."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    engine.session.sql(f"CREATE TABLE people_of_test USING parquet LOCATION '{tmp_path / 'data'}'")
    del world.config["dataset"]["path"]
    world.config["engine"] = {"name": "spark"}
    world.config["mechanism"] = {"name": "laplace"}
    world.config["workload"] = {"marginals": {"cliques": [{"attributes": ["sex"]}]}}
    world.config["privacy"] |= {"epsilon": 100.0, "delta": 0.0}
    world.set("dataset.catalog", "people_of_test")
    world.budget(epsilon=300.0, delta=0.0)
    yield world
    engine.session.sql("DROP TABLE people_of_test")


def test_every_command_knows_the_table(world: World, engine: SparkEngine) -> None:
    text = "spark_catalog.default.people_of_test in Spark's catalog"
    code, out, err = world.marquee("plan", "release.yaml")
    assert (code, f"table      {text}" in out) == (0, True), err
    code, out, err = world.marquee("validate", "release.yaml")
    assert (code, "rows                                           300" in out) == (0, True), err
    world.set("dataset.where", {"sex": "female"})
    code, out, err = world.run()
    assert (code, world.charges()) == (0, 1), err
    women = pq.read_table(world.folder / "data")["sex"].to_pylist().count("female")
    answers = pq.read_table(world.folder / "out/people/answers.parquet")["answer"].to_pylist()
    assert [round(answer) for answer in answers] == [pytest.approx(women, abs=2), pytest.approx(0, abs=2)]
    certificate = json.loads((world.folder / "out/people/certificate.json").read_text())
    assert certificate["dataset"]["table"] == text
    assert world.marquee("verify", "out/people", "--ledger", LEDGER)[0] == 0
    assert "already published" in world.run()[1]
    assert world.marquee("evaluate", "release.yaml")[0] == 0
    pq.write_table(pq.read_table(world.folder / "data").slice(1), world.folder / "data" / "part-3.parquet")
    engine.session.sql("REFRESH TABLE people_of_test")
    code, _, err = world.run()
    assert (code, "was planned with other rows; want the same rows" in err) == (7, True), err


def test_a_budget_moves_to_the_table_that_has_the_files(world: World) -> None:
    del world.config["dataset"]["catalog"]
    world.set("dataset.path", "data")
    world.set("engine.name", "local")
    assert world.run()[0] == 0
    move = ["budget", "move", "--dataset", "people", "--reason", "registered in the catalog", "--path"]
    code, _, err = world.marquee(*move, "catalog:nothing_of_test")
    assert (code, "Spark's catalogs have no such table" in err) == (3, True), err
    code, out, err = world.marquee(*move, "catalog:people_of_test")
    assert (code, "were not compared" in out) == (0, False), err
    del world.config["dataset"]["path"]
    world.config["dataset"] |= {"catalog": "people_of_test", "snapshot": "2026-12"}
    world.config["output"]["path"] = "out/december"
    world.set("engine.name", "spark")
    code, _, err = world.run()
    assert (code, world.charges()) == (0, 2), err


def test_a_wrong_name_is_named_without_a_stack_trace(world: World) -> None:
    world.set("dataset.catalog", "nobody_of_test")
    code, _, err = world.run()
    assert (code, err.count("\n")) == (3, 1), err
    assert "dataset.catalog is spark_catalog.default.nobody_of_test, and Spark's catalogs have no such table" in err


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        (Condition("n", (1, 2)), True), (Condition("n", low=2, high=3), True), (Condition("n", low=1.5), False),
        (Condition("n", (2**63 + 5, 1)), False), (Condition("x", low=0.1, high=0.5), True),
        (Condition("x", high=2**60), False), (Condition("f", high=0.1), False), (Condition("t", ("a", "b ")), True),
        (Condition("b", (True,)), True), (Condition("d", low=18262, dates=True), True),
        (Condition("d", high=18262, dates=True), True), (Condition("s", low=18262, dates=True), False),
        (Condition("m", low=0), False),
    ],
    ids=str,
)  # fmt: skip
def test_spark_drops_no_row_that_passes(
    engine: SparkEngine, tmp_path: Path, condition: Condition, pushed: bool
) -> None:
    from pipelines.engines.spark_filter import prefiltered

    days = pa.array([date(2019, 12, 31), date(2020, 1, 1), date(1900, 1, 1), None])
    rows = pa.table({
        "row": pa.array(range(4)), "n": pa.array([1, 2, 3, None], pa.int32()), "t": ["a", "b", "b ", None],
        "x": [0.1, 0.5, float("nan"), None], "f": pa.array([0.1, 0.2, float("inf"), None], pa.float32()),
        "b": [True, False, True, None], "d": days, "s": days.cast(pa.timestamp("us")),
        "m": pa.array([Decimal(1), Decimal(-1), Decimal(0), None], pa.decimal128(5, 2)),
    })  # fmt: skip
    pq.write_table(rows, tmp_path / "rows.parquet")
    where = RowFilter((condition,))
    frame = prefiltered(engine.session.read.parquet(str(tmp_path)), where)
    kept = {row["row"] for row in frame.select("row").collect()}
    batch = rows.combine_chunks().to_batches()[0]
    passing = set(where.apply(batch).column("row").to_pylist())
    assert passing <= kept
    assert (kept - passing <= {2}) if pushed else kept == set(range(4))  # Spark takes NaN for more than any number.
