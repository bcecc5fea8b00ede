"""The same rows in Parquet, CSV, JSON lines, ORC and Feather give the same integers on every engine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from pipelines.attributes import Attribute, Kind, days_since_epoch
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import CsvOptions, FileFormat, FileLocation, open_source
from tests.support.engines import ENGINES

SALT = b"sixteen bytes ok"
EDGES = tuple(days_since_epoch(date(2026, month, 1)) for month in (1, 4, 7))
TABLE_SCHEMA = Schema(
    (
        Attribute("zip", Kind.CATEGORICAL, values=("00123", "123", "A & B", 'say "x"', "zwölf"), other=True),
        Attribute("age", Kind.INTEGER, edges=(0, 30, 60, 100)),
        Attribute("income", Kind.FLOAT, edges=(0.0, 1.5, 10.0)),
        Attribute("member", Kind.BOOLEAN),
        Attribute("joined", Kind.DATE, edges=EDGES),
        Attribute("grade", Kind.CATEGORICAL, values=(1, 2, 3), other=True),
        Attribute("gap", Kind.INTEGER, edges=(0, 20, 40, 90), sum_of=(("age", 1), ("grade", -10)), absolute=True),
        Attribute("since", Kind.FLOAT, edges=(0.0, 10_230.0, 30_000.0), sum_of=(("joined", 0.5),), dates=True),
    )
)
ROWS = 700
NAMES = ("person", "zip", "age", "income", "member", "joined", "grade", "unused")


def people() -> pa.Table:
    """Rows with nulls in every column, several rows per unit, and values out of every list and bin."""
    random = np.random.default_rng(7)

    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([values[index] for index in random.integers(len(values), size=ROWS)], kind)

    days = [None, *(date(2026, month, 15) for month in (1, 3, 5, 6))]
    return pa.table(
        {
            "person": column([f"p00{unit}" for unit in range(250)] + [None], pa.string()),
            "zip": column(["00123", "123", "A & B", 'say "x"', "zwölf", "line\nbreak", "NA", None], pa.string()),
            "age": column([-5, 0, 29, 30, 59, 2**40, None], pa.int64()),
            "income": column([0.0, 1.5, 1e9, -3.25, float("inf"), None], pa.float64()),
            "member": column([True, False, None], pa.bool_()),
            "joined": column(days, pa.date32()),
            "grade": column([1, 2, 3, 4, None], pa.int64()),
            "unused": column(["x", None], pa.string()),
        }
    )


def _csv(table: pa.Table, path: Path) -> None:
    arrow_csv.write_csv(table, path, arrow_csv.WriteOptions(quoting_style="needed"))


def _semicolons(table: pa.Table, path: Path) -> None:
    text = path.with_suffix(".tmp")
    arrow_csv.write_csv(
        table, text, arrow_csv.WriteOptions(delimiter=";", quoting_style="needed", include_header=False)
    )
    path.write_bytes(gzip.compress(text.read_text("utf-8").encode("latin-1")))
    text.unlink()


def _json(table: pa.Table, path: Path) -> None:
    rows = ({name: value for name, value in row.items() if value is not None} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), encoding="utf-8")


WRITERS: dict[str, tuple[Callable[[pa.Table, Path], None], FileLocation]] = {
    "csv": (_csv, FileLocation("csv")),
    "csv.gz": (
        _semicolons,
        FileLocation("csv.gz", FileFormat.CSV, CsvOptions(";", encoding="latin-1", column_names=NAMES)),
    ),
    "jsonl": (_json, FileLocation("jsonl")),
    "orc": (lambda table, path: orc.write_table(table, path), FileLocation("orc", FileFormat.ORC)),
    "feather": (lambda table, path: feather.write_feather(table, path), FileLocation("feather")),
}  # fmt: skip


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param()
    return made


def counts(engine: Engine, location: FileLocation | str, layout: Layout) -> list[int]:
    source = open_source(location, layout, SALT)
    assert isinstance(layout, TableLayout)
    domain = layout.schema.domain
    queries = Marginals(domain, (("zip", "age"), ("income", "member"), ("joined", "grade"), ("gap", "since"), ()))
    return EngineStatistics(engine, source).aggregate(QueryAnswers(queries)).tolist()


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("clustered", [False, True])
def test_every_format_gives_the_counts_of_parquet(engine: Engine, ending: str, clustered: bool, tmp_path: Path) -> None:
    table = people()
    order = pc.sort_indices(table["person"]) if clustered else None
    table = table if order is None else table.take(order)
    half = ROWS // 2
    write, location = WRITERS[ending]
    for name, part in (("a", table.slice(0, half)), ("b", table.slice(half))):
        (tmp_path / "parquet").mkdir(exist_ok=True)
        pq.write_table(part, tmp_path / "parquet" / f"{name}.parquet")
        (tmp_path / ending).mkdir(exist_ok=True)
        write(part, tmp_path / ending / f"{name}.{ending}")
    layout = TableLayout("person", TABLE_SCHEMA, 2, clustered)
    there = FileLocation(str(tmp_path / location.path), location.format, location.csv)
    assert counts(engine, there, layout) == counts(engine, str(tmp_path / "parquet"), layout)
