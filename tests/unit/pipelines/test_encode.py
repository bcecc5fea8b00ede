from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipelines.attributes import Attribute, Kind
from pipelines.column_codes import encode_column
from pipelines.encode import EncodedRows, code_dtype, encode_batch, encode_table, unit_column
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema

TEXT = Attribute("a", Kind.CATEGORICAL, values=("x", "y"), other=True)  # other 2, null 3
NUMBER = Attribute("a", Kind.CATEGORICAL, values=(300, -1, 2**64 - 1), other=True)  # other 3, null 4
TRUTH = Attribute("a", Kind.CATEGORICAL, values=(True, False), other=True)  # null 3
BOOLEAN = Attribute("a", Kind.BOOLEAN)
INTEGER = Attribute("a", Kind.INTEGER, edges=(-5, 0, 5, 10))  # null 3
FLOAT = Attribute("a", Kind.FLOAT, edges=(-1.0, 0.5, 2.0, 1e300))  # null 3
DAY = Attribute("a", Kind.DATE, edges=(-10, 0, 10))  # null 2
NOON = datetime(1970, 1, 1, 12)


@pytest.mark.parametrize(
    ("attribute", "column", "codes"),
    [
        (TEXT, pa.array(["y", "x", "z", None, ""]), [1, 0, 2, 3, 2]),
        (TEXT, pa.array(["y", None, "z"], pa.large_string()), [1, 3, 2]),
        (TEXT, pa.array(["y", None, "z"], pa.string_view()), [1, 3, 2]),
        (TEXT, pa.array(["y", None, "z", "y"]).dictionary_encode(), [1, 3, 2, 1]),
        (TEXT, pa.array(["q", "y", None, "z"]).dictionary_encode().slice(1), [1, 3, 2]),
        (TEXT, pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), ["z", None, "x"]), [2, 3, 3, 0]),
        (TEXT, pa.array([None, None], pa.string()), [3, 3]),
        (NUMBER, pa.array([300, -1, 0, None], pa.int64()), [0, 1, 3, 4]),
        (NUMBER, pa.array([-1, 44, None], pa.int8()), [1, 3, 4]),
        (NUMBER, pa.array([300, 2**64 - 1, 2**63], pa.uint64()), [0, 2, 3]),
        (NUMBER, pa.array([300, None], pa.int64()).dictionary_encode(), [0, 4]),
        (TRUTH, pa.array([True, False, None]), [0, 1, 3]),
        (BOOLEAN, pa.array([True, False, None]), [1, 0, 2]),
        (INTEGER, pa.array([-128, -5, -1, 0, 4, 5, 10, 127, None], pa.int8()), [0, 0, 0, 1, 1, 2, 2, 2, 3]),
        (INTEGER, pa.array([0, 2**64 - 1], pa.uint64()), [1, 2]),
        (INTEGER, pa.array([-0.1, 0.0, 4.99, np.nan, np.inf, -np.inf, None], pa.float32()), [0, 1, 1, 3, 3, 3, 3]),
        (INTEGER, pa.array([np.float16(4.5), None, np.float16(np.nan)], pa.float16()), [1, 3, 3]),
        (INTEGER, pa.array([Decimal("-0.01"), Decimal("5.00"), None], pa.decimal128(5, 2)), [0, 2, 3]),
        (INTEGER, pa.array([Decimal(10) ** 70, Decimal(-1)], pa.decimal256(76, 0)), [2, 0]),
        (INTEGER, pa.array([0.0, np.nan, 7.0]).dictionary_encode(), [1, 3, 2]),
        (FLOAT, pa.array([0, 1, 2, -(2**63), 2**63 - 1, None], pa.int64()), [0, 1, 2, 0, 2, 3]),
        (FLOAT, pa.array([0.49999, 0.5, 2.0, 1e308, -1e308]), [0, 1, 2, 2, 0]),
        (DAY, pa.array([date(1969, 12, 31), date(1970, 1, 1), None]), [0, 1, 2]),
        (DAY, pa.array([-(2**31), 2**31 - 1], pa.int32()).view(pa.date32()), [0, 1]),
        (DAY, pa.array([-1, 0, None, 2**63 - 1], pa.int64()).view(pa.date64()), [0, 1, 2, 1]),
        (DAY, pa.array([NOON, None], pa.timestamp("s")), [1, 2]),
        (DAY, pa.array([-1, 0, -(2**63), 2**63 - 1], pa.int64()).view(pa.timestamp("ns")), [0, 1, 0, 1]),
        (DAY, pa.array([-1, 86_399_999, None], pa.timestamp("ms", "+14:00")), [0, 1, 2]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_value_of_every_type_has_a_code(attribute: Attribute, column: pa.Array, codes: list[int]) -> None:
    assert encode_column(column, attribute, np.dtype(np.uint8)).tolist() == codes
    assert encode_column(column.slice(0, 0), attribute, np.dtype(np.uint8)).tolist() == []
    assert encode_column(column.slice(1), attribute, np.dtype(np.int32)).tolist() == codes[1:]


def test_fractional_edges_split_large_integers_exactly() -> None:
    attribute = Attribute("a", Kind.FLOAT, edges=(0.0, 0.5, 2**53 - 1, 2**53 + 2, 2.0**63, 1e300))
    column = pa.array([0, 1, 2**53 - 2, 2**53 - 1, 2**53 + 1, 2**53 + 2, 2**63 - 1], pa.int64())
    assert encode_column(column, attribute, np.dtype(np.uint8)).tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_folded_values_share_a_code() -> None:
    attribute = Attribute("a", Kind.CATEGORICAL, values=("x", "y"), other="y", null="x")
    assert encode_column(pa.array(["y", "z", None]), attribute, np.dtype(np.uint8)).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("size", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.int32)]
)
def test_codes_take_the_smallest_type_that_holds_them(size: int, dtype: type) -> None:
    schema = Schema((Attribute("a", Kind.INTEGER, edges=tuple(range(size)), null=True), Attribute("b", Kind.BOOLEAN)))
    assert schema.domain.sizes[0] == size
    batch = pa.record_batch({"a": pa.array([0, size, None]), "b": pa.array([True, None, False])})
    codes = encode_table(batch, schema)
    assert codes.dtype == code_dtype(schema) == dtype
    assert codes.tolist() == [[0, size - 2, size - 1], [1, 2, 0]]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1, None], pa.uint32()), pa.int64()),
        (pa.array([2**64 - 1, None], pa.uint64()), pa.uint64()),
        (pa.array(["a", None]), pa.large_string()),
        (pa.array(["a", None], pa.string_view()), pa.large_string()),
        (pa.array(["a", None]).dictionary_encode(), pa.large_string()),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", None]), pa.large_string()),
    ],
)
def test_units_come_in_one_of_three_types(column: pa.Array, kind: pa.DataType) -> None:
    units = unit_column(column)
    assert units.type == kind
    assert units.null_count == 1
    assert units[0].as_py() == column[0].as_py()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()])
def test_pairs_without_unit_or_catalogued_item_are_left_out(kind: pa.DataType) -> None:
    wild = 100 if kind == pa.int8() else 2**31 - 1 if kind == pa.int32() else 2**62
    signed = -3 if pa.types.is_signed_integer(kind) else 99
    units = pa.array([1, None, 2, 3, 4, 5], pa.int32())
    items = pa.array([0, 1, None, wild, signed, 9], kind)
    rows = encode_batch(pa.record_batch({"u": units, "i": items}), BasketLayout("u", "i", 10))
    assert rows.units.to_pylist() == [1, 5]
    assert rows.rows.tolist() == [[0, 9]]
    assert rows.rows.dtype == np.int32


def test_dropped_units_lose_their_rows_alone() -> None:
    batch = pa.record_batch({"u": pa.array(["a", "b", None, "c"]), "i": pa.array([0, 1, 2, 3])})
    rows = encode_batch(batch, BasketLayout("u", "i", 10), dropped=pa.array(["b"], pa.large_string()))
    assert rows.units.to_pylist() == ["a", "c"]
    assert rows.rows.tolist() == [[0, 3]]


def test_joins_parts_of_which_some_or_all_are_empty() -> None:
    layout = TableLayout("u", Schema((BOOLEAN,)))
    part = encode_batch(pa.record_batch({"u": pa.array([1, None]), "a": pa.array([True, True])}), layout)
    none = encode_batch(pa.record_batch({"u": pa.array([None], pa.int64()), "a": pa.array([True])}), layout)
    assert EncodedRows.join([none, part, none, part], layout).rows.tolist() == [[1, 1]]
    for parts in ([], [none]):
        empty = EncodedRows.join(parts, layout)
        assert (len(empty.units), empty.rows.shape, empty.rows.dtype) == (0, (1, 0), np.uint8)
