"""Weighted sums of columns: what they are in plain Python, for all types of columns, with nulls and extremes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipelines.attributes import Attribute, Kind
from pipelines.weighted_sums import column_of

BATCH = pa.record_batch(
    {
        "small": pa.array([3, -4, None, 127], pa.int8()),
        "large": pa.array([2**63 - 1, -(2**63), 0, 7], pa.int64()),
        "unsigned": pa.array([2**64 - 1, 0, 5, None], pa.uint64()),
        "real": pa.array([0.5, float("nan"), float("inf"), -2.0]),
        "money": pa.array([Decimal("1.25"), None, Decimal("-3.00"), Decimal("0.00")], pa.decimal128(5, 2)),
        "day": pa.array([date(1970, 1, 11), date(1969, 12, 31), None, date(2026, 11, 27)]),
        "time": pa.array([datetime(1970, 1, 1, 23, tzinfo=UTC)] * 3 + [datetime(1970, 1, 3, tzinfo=UTC)]),
        "coded": pa.array([10, None, 10, 20], pa.int32()).dictionary_encode(),
    }
)
LIMIT = 2**62


def summed(
    *terms: tuple[str, int | float], absolute: bool = False, dates: bool = False, kind: Kind = Kind.INTEGER
) -> pa.Array:
    return column_of(BATCH, Attribute("sum", kind, edges=(0, 1), sum_of=terms, absolute=absolute, dates=dates))


@pytest.mark.parametrize(
    ("terms", "values"),
    [
        ([("small", 1)], [3, -4, None, 127]),
        ([("small", 2), ("coded", -1)], [-4, None, None, 234]),
        ([("small", -3), ("coded", 2)], [11, None, None, -341]),
    ],
)
def test_integers_are_added_exactly(terms: list[tuple[str, int]], values: list[int | None]) -> None:
    found = summed(*terms)
    assert (found.type, found.to_pylist()) == (pa.int64(), values)
    absolute = [None if value is None else abs(value) for value in values]
    assert summed(*terms, absolute=True).to_pylist() == absolute


def test_a_difference_of_dates_and_times_is_a_number_of_days() -> None:
    days = (date(2026, 11, 27) - date(1970, 1, 1)).days
    assert summed(("time", 1), ("day", -1), dates=True).to_pylist() == [-10, 1, None, 2 - days]
    assert summed(("time", 1), ("day", -1), dates=True, absolute=True).to_pylist() == [10, 1, None, days - 2]


def test_sums_out_of_the_range_of_an_integer_stop_there_with_their_sign() -> None:
    assert summed(("large", 1)).to_pylist() == [LIMIT, -LIMIT, 0, 7]
    assert summed(("large", 1), ("unsigned", 1)).to_pylist() == [LIMIT, -(LIMIT // 2), 5, None]
    assert summed(("large", 10**6), absolute=True).to_pylist()[1:] == [LIMIT // 10**6 * 10**6, 0, 7 * 10**6]


def test_floats_decimals_and_fractions_make_floats() -> None:
    found = summed(("real", 2), ("small", 1), kind=Kind.FLOAT)
    assert found.type == pa.float64()
    np.testing.assert_array_equal(found.to_pylist()[:2], [4.0, np.nan])
    assert found.to_pylist()[2:] == [None, 123.0]
    assert summed(("money", 4), ("small", 1), kind=Kind.FLOAT).to_pylist() == [8.0, None, None, 127.0]
    assert summed(("small", 0.5), kind=Kind.FLOAT).to_pylist() == [1.5, -2.0, None, 63.5]
    assert summed(("money", 4)).to_pylist() == [5.0, None, -12.0, 0.0]


def test_infinities_that_cancel_are_no_number() -> None:
    batch = pa.record_batch({"a": pa.array([np.inf, 1e308]), "b": pa.array([np.inf, -1e308])})
    found = column_of(batch, Attribute("sum", Kind.FLOAT, edges=(0.0, 1.0), sum_of=(("a", 9), ("b", -9))))
    np.testing.assert_array_equal(found.to_numpy(), [np.nan, np.inf])


def test_slices_and_empty_batches() -> None:
    attribute = Attribute("sum", Kind.INTEGER, edges=(0, 1), sum_of=(("small", 2), ("coded", -1)))
    assert column_of(BATCH.slice(2), attribute).to_pylist() == [None, 234]
    assert column_of(BATCH.slice(4), attribute).to_pylist() == []


def test_a_plain_attribute_is_its_column() -> None:
    assert column_of(BATCH, Attribute("s", Kind.INTEGER, edges=(0, 1), column="small")).equals(BATCH.column("small"))
