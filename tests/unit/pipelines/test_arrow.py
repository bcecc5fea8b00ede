from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.arrow import booleans, integers, nulls_of, numbers_of, texts

ENTIRE_RUN = """
import sys
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import TableLayout
from pipelines.schema import Attribute, Kind, Schema
from pipelines.source import open_source
schema = Schema((Attribute("a", Kind.CATEGORICAL, values=("x", "y")), Attribute("n", Kind.FLOAT, edges=(0, 1))))
source = open_source(sys.argv[1], TableLayout("u", schema), bytes(16))
request = QueryAnswers(Marginals(schema.domain, (("a",),)))
assert EngineStatistics(LocalEngine(), source).aggregate(request).tolist() == [1, 0, 2]
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()],
    ids=str,
)
def test_numbers_are_read_where_they_lie(kind: pa.DataType) -> None:
    column = pa.array(np.array([0, 1, 0, 1, 1, 0, 0, 1, 1, 1]), pa.int8()).cast(kind)
    for part in (column, column.slice(3), column.slice(9, 1), column.slice(10)):
        assert numbers_of(part).dtype == kind.to_pandas_dtype()
        assert numbers_of(part).tolist() == part.to_pylist()


def test_a_null_has_any_value_and_keeps_its_place() -> None:
    column = pa.array([5, None, 7, None], pa.int32())
    assert numbers_of(column)[[0, 2]].tolist() == [5, 7]
    assert nulls_of(column).tolist() == [False, True, False, True]
    assert nulls_of(column.slice(1, 2)).tolist() == [True, False]


def test_arrow_takes_numbers_over_without_a_copy() -> None:
    values = np.arange(5, dtype=np.uint16)
    assert integers(values).equals(pa.array([0, 1, 2, 3, 4], pa.uint16()))
    assert integers(values[::2]).to_pylist() == [0, 2, 4]
    assert integers(values).buffers()[1].address == values.ctypes.data
    assert booleans(values > 2).to_pylist() == [False, False, False, True, True]
    assert booleans(values[:0] > 2).to_pylist() == []


@pytest.mark.parametrize("values", [[], [""], ["a", "", "Ünïcödé", "x" * 999]])
def test_arrow_takes_texts(values: list[str]) -> None:
    assert texts(values).equals(pa.array(values, pa.large_string()))


def test_counting_never_imports_pandas(tmp_path: Path) -> None:
    rows = pa.table({"u": ["p", "q", "r", None], "a": ["x", "z", None, "x"], "n": [0.5, None, np.nan, 1.0]})
    pq.write_table(rows, tmp_path / "x.parquet")
    # Without a code of its own, the unknown value takes that of null.
    done = subprocess.run(
        [sys.executable, "-c", ENTIRE_RUN, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
