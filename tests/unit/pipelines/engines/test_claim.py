"""The claim of clustered files: what is counted, found and remembered, for each source."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from pipelines.aggregators import aggregator_for
from pipelines.attributes import Attribute, Kind
from pipelines.engines.claim import RangeSeen, UnitRange, are_disjoint, line_of, range_from, range_of
from pipelines.engines.local import LocalEngine
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from pipelines.source import Source, open_source
from tests.support.engine_cases import SALT

LAYOUT = TableLayout(
    "unit", Schema((Attribute("a", Kind.CATEGORICAL, values=(0, 1), null=False),)), clustered_by_unit=True
)
REQUEST = QueryAnswers(Marginals(LAYOUT.schema.domain, [("a",)]))


def source_of(folder: Path, *files: list[int | None]) -> Source:
    folder.mkdir(exist_ok=True)
    for number, units in enumerate(files):
        rows = pa.table({"unit": pa.array(units, pa.int64()), "a": pa.array([1] * len(units), pa.int8())})
        pq.write_table(rows, folder / f"{number}.parquet")
    return open_source(str(folder), LAYOUT, SALT)


def ones(engine: LocalEngine, source: Source) -> int:
    aggregator = aggregator_for(REQUEST, LAYOUT)
    return int(aggregator.extract(engine.reduce(source, aggregator))[1])


@pytest.mark.parametrize(
    ("files", "wanted", "compared"),
    [
        (([1, 2], [3, 4]), 4, 0),
        (([3, 4], [1, 2]), 4, 0),
        (([1, 3], [2, 4]), 4, 1),
        (([1, 2], [2, 3]), 2, 1),
        (([1, 5], [2, 3], [5, 6]), 4, 1),
        (([1, None], [None]), 1, 0),
        (([], [1]), 1, 0),
        (([None], []), 0, 0),
        (([7], [7], [7]), 0, 1),
    ],
)
def test_units_are_compared_only_where_ranges_overlap(
    tmp_path: Path, files: tuple[list[int | None], ...], wanted: int, compared: int
) -> None:
    engine, source = LocalEngine(1), source_of(tmp_path / "data", *files)
    with mock.patch("pipelines.engines.local.units_in_many_files", wraps=lambda per_file: _repeated(per_file)) as find:
        assert ones(engine, source) == wanted
        assert ones(engine, source) == wanted
        assert find.call_count == compared  # The second aggregation remembers.


def test_another_source_of_the_same_files_is_checked_anew(tmp_path: Path) -> None:
    """The files may have changed: what held for the source of another release says nothing about this one."""
    engine = LocalEngine(1)
    assert ones(engine, source_of(tmp_path / "data", [1, 2], [3, 4])) == 4
    assert ones(engine, source_of(tmp_path / "data", [1, 2], [2, 4])) == 2
    assert ones(engine, source_of(tmp_path / "data", [1, 2], [3, 4])) == 4


def test_ranges_of_units_of_every_type() -> None:
    assert range_of(pa.array([3, None, -1], pa.int64())) == UnitRange(-1, 3)
    assert range_of(pa.array([2**63, 1], pa.uint64())) == UnitRange(1, 2**63)
    assert range_of(pa.array(["b", "é", None], pa.large_string())) == UnitRange(b"b", "é".encode())
    assert range_of(pa.nulls(2, pa.int64())) is None
    broken = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, 1], dtype=np.int64)), pa.py_buffer(b"\xff")]
    )
    assert range_of(broken) == UnitRange(b"\xff", b"\xff")


def test_the_range_of_batches_is_that_of_all_of_them() -> None:
    seen = RangeSeen()
    batches = [pa.record_batch({"unit": pa.array(units, pa.int32())}) for units in ([5, 7], [None], [2])]
    assert seen.range is None
    assert list(seen.over(batches, "unit")) == batches
    assert seen.range == UnitRange(2, 7)


@pytest.mark.parametrize("ends", [(-(2**63), 2**64 - 1), (b"a\n,", b"\xff"), (0, 0)])
def test_a_range_can_be_written_as_a_line(ends: tuple[object, object]) -> None:
    line = line_of(UnitRange(*ends))
    assert b"\n" not in line
    assert range_from(line) == UnitRange(*ends)


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        ([], True),
        ([(1, 1)], True),
        ([(4, 5), (1, 3)], True),
        ([(1, 3), (3, 4)], False),
        ([(1, 9), (2, 3), (10, 11)], False),
        ([(b"a", b"b"), (b"ba", b"c")], True),
        ([(1, 1), (1, 1)], False),
    ],
)
def test_disjoint_ranges(ranges: list[tuple[object, object]], wanted: bool) -> None:
    assert are_disjoint([UnitRange(*ends) for ends in ranges]) is wanted


def _repeated(per_file: object) -> pa.Array:
    from pipelines.engines.accumulation import units_in_many_files

    return units_in_many_files(per_file)  # type: ignore[arg-type]
