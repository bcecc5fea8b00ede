from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import InputError
from pipelines import inspect
from pipelines.attributes import Attribute, Kind
from pipelines.engines.local import LocalEngine
from pipelines.inspect import ColumnFindings, Findings, inspect_source
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import open_source
from tests.support.engine_cases import SALT, write_parts

SCHEMA = Schema(
    (
        Attribute("colour", Kind.CATEGORICAL, values=("red", "green"), other=True),
        Attribute("age", Kind.FLOAT, edges=(0.0, 18.0, 99.0)),
        Attribute("day", Kind.DATE, edges=(0, 10)),
    )
)
BASKETS = BasketLayout("u", "i", 10, max_items_per_unit=2)
ENGINES = [LocalEngine(threads=2), LocalEngine(threads=2, rows_in_memory=2)]


def table(**columns: list[object]) -> pa.Table:
    return pa.table({"u": pa.array(columns.pop("u"), pa.int64()), **columns})


ROWS = {
    "u": [1, 1, 2, None, 3],
    "colour": ["red", "pink", None, "blue", "green"],
    "age": pa.array([18.0, np.nan, np.inf, 120.0, None]),
    "day": pa.array([0, 10, 11, -1, None], pa.int32()).view(pa.date32()),
}


@pytest.mark.parametrize("engine", ENGINES, ids=["one pass", "several passes"])
def test_counts_what_a_run_would_fold_drop_or_bound_in_a_table(tmp_path: Path, engine: LocalEngine) -> None:
    write_parts([table(**ROWS)], tmp_path)
    found = inspect_source(open_source(str(tmp_path), TableLayout("u", SCHEMA), SALT), engine)
    assert found == Findings(
        rows=5,
        units=3,
        null_units=1,
        null_items=0,
        items_out_of_range=0,
        units_over_bound=1,
        units_in_many_files=0,
        columns=(
            ColumnFindings("colour", nulls=1, not_finite=0, unknown=2, out_of_range=0),
            ColumnFindings("age", nulls=1, not_finite=2, unknown=0, out_of_range=1),
            ColumnFindings("day", nulls=1, not_finite=0, unknown=0, out_of_range=2),
        ),
    )
    assert not found.clean


@pytest.mark.parametrize("engine", ENGINES, ids=["one pass", "several passes"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_counts_what_a_run_would_drop_or_bound_in_baskets(
    tmp_path: Path, engine: LocalEngine, kind: pa.DataType
) -> None:
    wild = 2**64 - 1 if kind == pa.uint64() else -1
    rows = table(u=[1, 1, 1, 2, 2, 2, 3, None, 4], i=pa.array([0, 1, 2, 5, 5, 6, None, 3, wild], kind))
    write_parts([rows.slice(0, 4), rows.slice(4)], tmp_path)
    found = inspect_source(open_source(str(tmp_path), BASKETS, SALT), engine)
    assert (found.rows, found.units, found.null_units, found.null_items) == (9, 2, 1, 1)
    assert (found.items_out_of_range, found.units_over_bound, found.units_in_many_files) == (1, 1, 0)
    assert found.columns == ()


def test_counts_units_that_break_the_clustered_claim(tmp_path: Path) -> None:
    write_parts([table(u=[1, 2], i=[0, 1]), table(u=[2, 3, None], i=[1, 2, 3]), table(u=[9], i=[1])], tmp_path)
    for claimed, wanted in ((False, 0), (True, 1)):
        layout: Layout = replace(BASKETS, clustered_by_unit=claimed)
        assert inspect_source(open_source(str(tmp_path), layout, SALT)).units_in_many_files == wanted


def test_clean_data_are_clean_and_nulls_with_a_code_are_no_finding(tmp_path: Path) -> None:
    kept = table(u=[1, 2], colour=["red", None], age=[0.0, 99.0], day=pa.array([0, 10], pa.int32()).view(pa.date32()))
    write_parts([kept], tmp_path)
    assert inspect_source(open_source(str(tmp_path), TableLayout("u", SCHEMA), SALT)).clean


def test_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    write_parts([table(u=[1], i=[0])], tmp_path)
    source = open_source(str(tmp_path), BASKETS, SALT)
    (tmp_path / "part-00000.parquet").unlink()
    with pytest.raises(InputError, match=r"part-00000\.parquet does not exist"):
        inspect.inspect_source(source)
