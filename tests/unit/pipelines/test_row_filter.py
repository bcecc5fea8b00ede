"""The filter of rows, against a slow reading of its conditions value by value."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, InputError
from dpcore.exact_statistics import Request
from pipelines.aggregators import aggregator_for
from pipelines.attributes import days_since_epoch
from pipelines.engines.local import LocalEngine
from pipelines.inspect import inspect_source
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.row_filter import ALL_ROWS, Condition, RowFilter
from pipelines.source import open_source
from tests.support.engine_cases import SALT, messy_baskets, messy_table

COLUMNS = {
    "text": pa.array(["a", "b", None, "", "a"]),
    "code": pa.array(["a", "b", None, "", "a"]).dictionary_encode(),
    "small": pa.array([1, -2, None, 127, 0], pa.int8()),
    "large": pa.array([1, 2**63 + 5, None, 2**64 - 1, 0], pa.uint64()),
    "flag": pa.array([True, False, None, True, False]),
    "real": pa.array([1.0, math.nan, None, math.inf, -math.inf]),
    "money": pa.array([Decimal("1.00"), Decimal("-2.50"), None, Decimal("9.99"), Decimal("0.00")]),
    "day": pa.array([date(2020, 1, 1), date(1969, 12, 31), None, date(2020, 1, 2), date(2021, 1, 1)]),
    "time": pa.array([datetime(2020, 1, 1, 23, 59), datetime(1969, 12, 31), None, datetime(2020, 1, 2), None]),
}


def passes(value: object, condition: Condition) -> bool:
    """The slow reading."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    if condition.values:
        return any(type(value) is type(wanted) and value == wanted for wanted in condition.values)
    number = days_since_epoch(value.date() if isinstance(value, datetime) else value) if condition.dates else value  # type: ignore[arg-type]
    low = condition.low is None or number >= condition.low  # type: ignore[operator]
    return low and (condition.high is None or number <= condition.high)  # type: ignore[operator]


@pytest.mark.parametrize(
    "condition",
    [
        Condition("text", ("a",)),
        Condition("text", ("", "b", "z")),
        Condition("code", ("b", "c")),
        Condition("small", (1, 127, 5000, -(2**63))),
        Condition("small", low=0),
        Condition("small", high=-1.5),
        Condition("large", (2**63 + 5, 1)),
        Condition("large", low=1, high=10),
        Condition("flag", (True,)),
        Condition("real", low=-1e300),
        Condition("real", high=1.0),
        Condition("money", low=0, high=5),
        Condition("day", low=days_since_epoch(date(2020, 1, 1)), high=days_since_epoch(date(2020, 1, 2)), dates=True),
        Condition("time", low=days_since_epoch(date(2020, 1, 1)), dates=True),
        Condition("time", high=days_since_epoch(date(2020, 1, 1)), dates=True),
    ],
    ids=str,
)
def test_equals_the_slow_reading(condition: Condition) -> None:
    batch = pa.record_batch({**COLUMNS, "row": pa.array(range(5))})
    wanted = [row for row, value in enumerate(COLUMNS[condition.column].to_pylist()) if passes(value, condition)]
    kept = RowFilter((condition,)).apply(batch)
    assert kept.column("row").to_pylist() == wanted
    assert kept.schema == batch.schema
    sliced = RowFilter((condition,)).apply(batch.slice(1, 3))
    assert sliced.column("row").to_pylist() == [row for row in wanted if 1 <= row < 4]


def test_all_conditions_must_be_met() -> None:
    batch = pa.record_batch({**COLUMNS, "row": pa.array(range(5))})
    both = RowFilter((Condition("text", ("a",)), Condition("small", low=1)))
    assert both.apply(batch).column("row").to_pylist() == [0]
    assert ALL_ROWS.apply(batch) is batch
    assert pickle.loads(pickle.dumps(both)) == both


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: Condition("a"), "wants a list of values, or min, max or both"),
        (lambda: Condition("a", ("x",), low=1), "wants a list of values, or min, max or both"),
        (lambda: Condition("a", low=2, high=1), "has min > max"),
        (lambda: Condition("a", ("x", 1)), "lists values of these types: integer, string"),
        (lambda: Condition("a", ("x", "x")), "lists a value twice"),
        (lambda: RowFilter((Condition("a", (1,)), Condition("a", (2,)))), "names a column twice"),
    ],
)
def test_refuses_what_contradicts_itself(make: object, wanted: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=wanted):
        make()


TABLE = messy_table(bound=2)
BASKETS = messy_baskets()
FILTERS = [
    (TABLE.layout, TABLE.rows, Condition("colour", ("red", "blue"))),
    (TABLE.layout, TABLE.rows, Condition("age", low=10, high=70)),
    (TABLE.layout, TABLE.rows, Condition("extra", (1, 2))),
    (BASKETS.layout, BASKETS.rows, Condition(BASKETS.layout.unit, low=10)),
    (BASKETS.layout, BASKETS.rows, Condition("extra", (1,))),
]


def answers(path: Path, layout: Layout, request: Request) -> list[int]:
    aggregator = aggregator_for(request, layout)
    source = open_source(str(path), layout, SALT)
    return aggregator.extract(LocalEngine(2).reduce(source, aggregator)).tolist()


@pytest.mark.parametrize(("layout", "rows", "condition"), FILTERS, ids=lambda value: getattr(value, "column", ""))
def test_a_filtered_source_is_the_source_of_the_filtered_rows(
    layout: TableLayout | BasketLayout, rows: pa.Table, condition: Condition, tmp_path: Path
) -> None:
    """Rows are dropped before a unit is truncated, on whole and on clustered files."""
    case = TABLE if layout is TABLE.layout else BASKETS
    rows = rows.append_column("extra", pa.array([row % 4 for row in range(rows.num_rows)]))
    column = rows.column(condition.column).to_pylist()
    kept = rows.filter(pa.array([passes(value, condition) for value in column]))
    assert 0 < kept.num_rows < rows.num_rows
    pq.write_table(rows.slice(0, 100), tmp_path / "a.parquet", row_group_size=30)
    pq.write_table(rows.slice(100), tmp_path / "b.parquet", row_group_size=30)
    (tmp_path / "kept").mkdir()
    pq.write_table(kept, tmp_path / "kept" / "kept.parquet")
    filtered = replace(layout, where=RowFilter((condition,)))
    for request in case.requests:
        wanted = answers(tmp_path / "kept", layout, request)
        assert answers(tmp_path / "[ab].parquet", filtered, request) == wanted
    found = inspect_source(open_source(str(tmp_path / "[ab].parquet"), filtered, SALT))
    assert found == inspect_source(open_source(str(tmp_path / "kept"), layout, SALT))


def test_names_a_column_of_a_type_that_cannot_be_compared(tmp_path: Path) -> None:
    pq.write_table(BASKETS.rows, tmp_path / "a.parquet")
    layout = BASKETS.layout
    assert isinstance(layout, BasketLayout)
    for condition, wanted in (
        (Condition(layout.item, ("x",)), "has type .*; want a string"),
        (Condition(layout.item, low=1, dates=True), "want a date or a timestamp, as its filter has dates"),
        (Condition("missing", (1,)), "has no column 'missing'"),
    ):
        with pytest.raises(InputError, match=wanted):
            open_source(str(tmp_path), replace(layout, where=RowFilter((condition,))), SALT)


def test_a_partition_column_is_typed_by_its_filter(tmp_path: Path) -> None:
    for year in (2024, 2025, 2026):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(BASKETS.rows, tmp_path / f"year={year}" / "a.parquet")
    request = BASKETS.requests[0]
    filtered = replace(BASKETS.layout, where=RowFilter((Condition("year", low=2025, high=2025),)))
    assert answers(tmp_path, filtered, request) == answers(tmp_path / "year=2025", BASKETS.layout, request)
