"""Sums of the hashes of rows, against a slow reference, on the local engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import UnitCount
from pipelines.aggregators import aggregator_for, row_hashes
from pipelines.aggregators.row_hashes import RowHashes, RowSums
from pipelines.engines.local import LocalEngine
from pipelines.layout import BasketLayout
from pipelines.source import open_frame
from tests.support import reference
from tests.support.engine_cases import SALT, Case, cases

KEYS = (bytes(range(16)), bytes(range(16, 32)))


def hashes_of(case: Case) -> RowHashes:
    bound = 1 if isinstance(case.layout, BasketLayout) else case.layout.max_rows_per_unit
    return RowHashes(aggregator_for(case.requests[0], case.layout), bound, KEYS)


def counted(case: Case, rows: pa.Table, hashes: RowHashes, salt: bytes = SALT) -> np.ndarray:
    return LocalEngine(threads=2).reduce(open_frame(rows, case.layout, salt), hashes)


def slow_sums(case: Case, rows: pa.Table) -> RowSums:
    """One row after the other, in Python."""
    valid = []
    for row in rows.to_pylist():
        encoded = None if row[case.layout.unit] is None else reference.encoded_row(row, case.layout)
        if encoded is not None:
            valid.append((row[case.layout.unit], encoded))
    return RowSums(len(valid), tuple(sum(reference.row_hash(key, *row) for row in valid) % 2**64 for key in KEYS))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_sums_equal_the_reference_and_leave_the_counts_alone(case: Case) -> None:
    hashes = hashes_of(case)
    accumulator = counted(case, case.rows, hashes)
    assert hashes.sums(accumulator) == slow_sums(case, case.rows)
    wanted = LocalEngine(threads=1).reduce(open_frame(case.rows, case.layout, SALT), hashes.counts)
    assert hashes.without_sums(accumulator).tolist() == wanted.tolist()
    assert hashes.extract(accumulator).tolist() == hashes.counts.extract(wanted).tolist()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_sums_know_neither_the_order_nor_the_blocks_nor_the_salt(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = hashes_of(case)
    wanted = hashes.sums(counted(case, case.rows, hashes))
    order = np.random.default_rng(5).permutation(case.rows.num_rows)
    monkeypatch.setattr(row_hashes, "_ROWS_AT_ONCE", 7)
    assert hashes.sums(counted(case, case.rows.take(pa.array(order)), hashes, bytes(16))) == wanted


CHANGES: list[Callable[[pa.Table], pa.Table]] = [
    lambda rows: rows.slice(1),
    lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    lambda rows: rows.set_column(0, rows.schema.field(0), _swapped(rows.column(0))),
]


def _swapped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values, of which two have changed places."""
    values = column.to_pylist()
    other = next(place for place, value in enumerate(values) if value not in (None, values[0]))
    values[0], values[other] = values[other], values[0]
    return pa.chunked_array([pa.array(values, column.type)])


@pytest.mark.parametrize("change", CHANGES, ids=["a row less", "a row twice", "two units swapped"])
def test_another_row_is_another_sum(change: Callable[[pa.Table], pa.Table]) -> None:
    case = cases()[0]
    rows = case.rows.filter(case.rows.column("person").is_valid())
    hashes = hashes_of(case)
    before, after = (hashes.sums(counted(case, table, hashes)) for table in (rows, change(rows)))
    assert all(first != second for first, second in zip(before.hashes, after.hashes, strict=True))


def test_no_rows_have_sums_of_zero() -> None:
    case = cases()[0]
    hashes = hashes_of(case)
    assert hashes.sums(counted(case, case.rows.slice(0, 0), hashes)) == RowSums(0, (0, 0))


def test_slices_merge_as_whole_accumulators_do() -> None:
    case = cases()[0]
    layout = replace(case.layout, max_rows_per_unit=2)
    hashes = RowHashes(aggregator_for(UnitCount(), layout), 2, KEYS)
    whole = counted(case, case.rows, hashes)
    for stop in range(1, whole.size):
        left = hashes.merge(whole[:stop].copy(), whole[:stop])
        right = hashes.merge(whole[stop:].copy(), whole[stop:])
        assert np.concatenate([left, right]).tolist() == (2 * whole).tolist()
    with pytest.raises(IntegrityError, match="some unit has no row"):
        hashes.merge(np.arange(whole.size)[::-1].copy(), hashes.create())
    with pytest.raises(EngineError, match="does not fit 64 bits"):
        hashes.merge(np.full(3, 2**62), np.full(3, 2**62))
