"""Units of several columns: every engine keeps and drops the rows of a tuple together, as the slow reference does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import Marginals, UnitCount
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.partition import Partition, UnitsIn, Values
from pipelines.row_filter import Condition, RowFilter
from pipelines.schema import Schema
from pipelines.source import open_source
from pipelines.source.frames import open_frame
from pipelines.unit_names import combined_name, parts_of
from tests.support import reference
from tests.support.engines import ENGINES, spark_engine

SALT = bytes(range(16))
ROWS = 900
INT64 = pa.int64()
UNIT = combined_name(["person", "household"])
PARTS = parts_of(UNIT)
SCHEMA = Schema(
    (
        Attribute("colour", Kind.CATEGORICAL, values=("red", "green"), other=True),
        Attribute("age", Kind.INTEGER, edges=(0, 30, 60, 100)),
        Attribute("role", Kind.CATEGORICAL, values=("a", "1:a"), other=True, column="person"),
    )
)
TABLE = TableLayout(UNIT, SCHEMA, 2, unit_parts=PARTS)
BASKETS = BasketLayout(UNIT, "item", 5, 2, unit_parts=PARTS)
REQUESTS: dict[str, tuple[Layout, tuple[Request, ...]]] = {
    "table": (TABLE, (QueryAnswers(Marginals(SCHEMA.domain, (("colour", "age"), ("role",), ()))), UnitCount())),
    "baskets": (BASKETS, (UnitCount(),)),
}


def rows(households: pa.DataType = INT64) -> pa.Table:
    """Rows whose values side by side look alike, some without a household or a person."""
    draw = np.random.default_rng(3)

    def column(values: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array([values[index] for index in draw.integers(len(values), size=ROWS)], kind)

    numbers: list[object] = [1, 11, 111, -1, 2**31 - 1, None, *range(20, 60)]
    return pa.table(
        {
            "household": column(numbers, pa.int64()).cast(households),
            "person": column(["a", "1a", "11a", "1:a", "", "ä", None], pa.string()).dictionary_encode(),
            "colour": column(["red", "green", "pink", None], pa.string()),
            "age": column([5, 35, 70, None], pa.int64()),
            "item": column([0, 1, 2, 3, 4, 7, None], pa.int64()),
            "month": column([1, 2, 3], pa.int64()),
        }
    )


def key(row: reference.Row) -> str | None:
    values = [row["household"], row["person"]]
    if None in values:
        return None
    return "".join(f"{len(str(value).encode())}:{value}" for value in values)


def with_keys(table: pa.Table) -> list[dict[str, object]]:
    return [row | {UNIT: key(row)} for row in table.to_pylist()]


def written(parts: Sequence[pa.Table], folder: Path) -> Path:
    folder.mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet")
    return folder


def wanted(parts: Sequence[pa.Table], layout: Layout, request: Request) -> list[int]:
    return reference.answers([with_keys(part) for part in parts], layout, SALT, request)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param()
    return made


def found(engine: Engine, folder: Path, layout: Layout, request: Request) -> list[int]:
    return EngineStatistics(engine, open_source(str(folder), layout, SALT)).aggregate(request).tolist()


@pytest.mark.parametrize("shape", REQUESTS)
def test_rows_of_a_tuple_are_truncated_together_in_every_file(engine: Engine, shape: str, tmp_path: Path) -> None:
    table, (layout, requests) = rows(), REQUESTS[shape]
    parts = [table.slice(0, 250), table.slice(250, 400), table.slice(650)]
    folder = written(parts, tmp_path / "data")
    for request in requests:
        assert found(engine, folder, layout, request) == wanted(parts, layout, request)


@pytest.mark.parametrize("shape", REQUESTS)
def test_a_claim_of_whole_files_is_checked_by_tuple(engine: Engine, shape: str, tmp_path: Path) -> None:
    table, (layout, requests) = rows(), REQUESTS[shape]
    layout = replace(layout, clustered_by_unit=True)
    homes = np.array([0 if row["household"] is None else row["household"] % 2 for row in table.to_pylist()])
    homes[:20] = 1  # Some tuples are in both files, though others of the same household are not.
    parts = [table.filter(pa.array(homes == number)) for number in (0, 1)]
    folder = written(parts, tmp_path / "data")
    for request in requests:
        counted = wanted(parts, layout, request)
        assert found(engine, folder, layout, request) == counted
        assert counted != wanted([table], layout, request), "some units break the claim"


def test_a_release_of_partitions_judges_whole_tuples(engine: Engine, tmp_path: Path) -> None:
    table = rows()
    folder = written([table.slice(0, 400), table.slice(400)], tmp_path / "data")
    partition = Partition("month", Values.INTEGER, (2,), UnitsIn.ONE)
    months: dict[str, set[object]] = {}
    for row in with_keys(table):
        months.setdefault(str(row[UNIT]), set()).add(row["month"])
    counted = [row for row in with_keys(table) if row["month"] == 2 and len(months[str(row[UNIT])]) == 1]
    request = REQUESTS["table"][1][0]
    answers = reference.answers([counted], TABLE, SALT, request)
    assert sum(answers) > 0
    assert found(engine, folder, replace(TABLE, partition=partition), request) == answers


def test_a_filter_may_name_a_column_of_the_unit(engine: Engine, tmp_path: Path) -> None:
    table = rows()
    folder = written([table], tmp_path / "data")
    layout = replace(TABLE, where=RowFilter((Condition("household", low=20),)))
    passing = table.filter(pa.array([(row["household"] or 0) >= 20 for row in table.to_pylist()]))
    request = REQUESTS["table"][1][0]
    assert found(engine, folder, layout, request) == wanted([passing], TABLE, request)


@pytest.mark.parametrize("households", [pa.int32(), pa.int64(), pa.string(), pa.large_string()], ids=str)
def test_the_type_of_a_column_does_not_matter(households: pa.DataType, tmp_path: Path) -> None:
    table = rows(households)
    folder = written([table], tmp_path / "data")
    request = REQUESTS["table"][1][0]
    assert found(LocalEngine(threads=1), folder, TABLE, request) == wanted([rows()], TABLE, request)


def test_csv_and_frames_have_the_same_units(tmp_path: Path) -> None:
    table, request = rows(), REQUESTS["table"][1][0]
    (tmp_path / "csv").mkdir()
    plain = table.set_column(1, "person", table["person"].cast(pa.string()))
    arrow_csv.write_csv(plain, tmp_path / "csv" / "a.csv", arrow_csv.WriteOptions(quoting_style="needed"))
    frame = open_frame(table, TABLE, SALT)
    counts = wanted([table], TABLE, request)
    assert found(LocalEngine(threads=1), tmp_path / "csv", TABLE, request) == counts
    assert EngineStatistics(LocalEngine(threads=1), frame).aggregate(request).tolist() == counts


def test_there_are_as_many_units_as_distinct_tuples(engine: Engine, tmp_path: Path) -> None:
    """The oracle knows no keys: it compares tuples."""
    table = rows()
    tuples = {(row["household"], row["person"]) for row in table.to_pylist()}
    whole = {pair for pair in tuples if None not in pair}
    folder = written([table.slice(0, 500), table.slice(500)], tmp_path / "data")
    assert found(engine, folder, TABLE, UnitCount()) == [len(whole)]


@pytest.mark.spark
def test_a_spark_frame_has_the_units_of_its_files(tmp_path: Path) -> None:
    from pipelines.engines.spark import SparkEngine

    engine = spark_engine()
    assert isinstance(engine, SparkEngine)
    table = rows()
    folder = written([table.slice(0, 400), table.slice(400)], tmp_path / "data")
    frame = engine.session.read.parquet(str(folder))
    for layout, requests in REQUESTS.values():
        for request in requests:
            counted = EngineStatistics(engine, open_frame(frame, layout, SALT, "people")).aggregate(request).tolist()
            assert counted == found(engine, folder, layout, request)
