"""Encodes Arrow batches as integer codes, or as (unit, item) pairs. TRUSTED. No value makes the encoder fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from pipelines.arrow import booleans, decoded, integers, numbers_of
from pipelines.column_codes import encode_column
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.weighted_sums import column_of


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Valid rows. SENSITIVE.

    units: Unit of each row, an Arrow array [rows] of int64, uint64 or large_string without nulls.
    rows: Codes of a table, [attributes, rows] in the dtype of ``code_dtype``; items of baskets, int32 [1, rows].
    """

    units: pa.Array
    rows: NDArray[np.integer]

    @classmethod
    def join(cls, parts: Sequence[EncodedRows], layout: Layout) -> EncodedRows:
        """Concatenates the rows of all parts."""
        filled = [part for part in parts if len(part.units)]
        if len(filled) == 1:
            return filled[0]
        if not filled:
            height = len(layout.schema.attributes) if isinstance(layout, TableLayout) else 1
            return cls(pa.nulls(0, pa.int64()), np.empty((height, 0), dtype=_row_dtype(layout)))
        return cls(
            pa.concat_arrays([part.units for part in filled]), np.concatenate([part.rows for part in filled], axis=1)
        )


def encode_batch(batch: pa.RecordBatch, layout: Layout, dropped: pa.Array | None = None) -> EncodedRows:
    """Encodes the valid rows of a batch. Rows without a unit, and pairs with an invalid item, are dropped.

    batch: Rows with the layout's columns.
    layout: The public layout.
    dropped: Units whose rows are dropped as well; None for none.
    """
    units = unit_column(batch.column(layout.unit))
    valid = _valid_units(units, dropped)
    if isinstance(layout, BasketLayout):
        return _encoded_pairs(units, batch.column(layout.item), layout, valid)
    if valid is not None:
        batch, units = batch.filter(valid), units.filter(valid)
    return EncodedRows(units, encode_table(batch, layout.schema))


def _valid_units(units: pa.Array, dropped: pa.Array | None) -> pa.Array | None:
    """Which rows have a unit that is not dropped; None if all have."""
    valid = units.is_valid() if units.null_count else None
    if dropped is None or not len(dropped):
        return valid
    if len(dropped) > len(units):  # A lookup makes a table of all its values, which is smaller the other way round.
        dropped = dropped.filter(pc.is_in(dropped, value_set=pc.unique(units)))
    retained = pc.invert(pc.is_in(units, value_set=dropped))
    return retained if valid is None else pc.and_(valid, retained)


def named_pairs(
    batches: Iterable[pa.RecordBatch], layout: BasketLayout, dropped: pa.Array | None = None
) -> tuple[pa.Array, NDArray[np.int32], pa.Array]:
    """The pairs with a unit and an item, whatever the items are. SENSITIVE.

    batches: Rows with the layout's columns.
    layout: The public layout.
    dropped: Units whose rows are dropped as well; None for none.

    Returns: The unit of each pair, as in ``EncodedRows``; the position of each pair's item among the names, int32
        [pairs]; and the names, distinct, Arrow large_string. Integers are named by their decimals.
    """
    units, items = [], []
    for batch in batches:
        unit, item = unit_column(batch.column(layout.unit)), batch.column(layout.item)
        valid = _valid_units(unit, dropped)
        item = decoded(item)
        present = item.is_valid() if valid is None else pc.and_(valid, item.is_valid())
        units.append(unit.filter(present))
        encoded = item.filter(present).dictionary_encode()
        # Files may differ in the width of their integers.
        items.append(pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(pa.large_string())))
    if not units:
        return pa.nulls(0, pa.int64()), np.empty(0, dtype=np.int32), pa.nulls(0, pa.large_string())
    unified = pa.chunked_array(items).unify_dictionaries()
    names = unified.chunk(0).dictionary
    positions = [numbers_of(chunk.indices) for chunk in unified.chunks]
    return pa.concat_arrays(units), np.concatenate(positions).astype(np.int32, copy=False), names


def _encoded_pairs(units: pa.Array, items: pa.Array, layout: BasketLayout, valid: pa.Array | None) -> EncodedRows:
    """The pairs with a valid item, and with a valid unit if ``valid`` says so."""
    if layout.any_items and layout.names is None:
        raise IntegrityError("the items are still to be discovered; want sums of named items")
    codes = items if layout.names is None else integers(layout.names.codes_of(items))
    inside = items_inside(codes, layout.items)
    if inside is not None:
        valid = inside if valid is None else pc.and_(valid, inside)
    if valid is not None:
        codes, units = codes.filter(valid), units.filter(valid)
    return EncodedRows(units, numbers_of(codes).astype(np.int32, copy=False)[None, :])


def unit_column(column: pa.Array) -> pa.Array:
    """Converts units from the type in the file to int64, uint64 or large_string."""
    column = decoded(column)
    if pa.types.is_integer(column.type):
        return column if pa.types.is_uint64(column.type) else column.cast(pa.int64())
    return column.cast(pa.large_string())


def code_dtype(schema: Schema) -> type[np.uint8 | np.uint16 | np.int32]:
    """The smallest dtype that holds every code of the schema."""
    largest = max(schema.domain.sizes)
    return np.uint8 if largest <= 1 << 8 else np.uint16 if largest <= 1 << 16 else np.int32


def encode_table(batch: pa.RecordBatch, schema: Schema) -> NDArray[np.integer]:
    """Codes of a batch, [attributes, rows] in the order of the schema."""
    codes = np.empty((len(schema.attributes), batch.num_rows), dtype=code_dtype(schema))
    for axis, attribute in enumerate(schema.attributes):
        codes[axis] = encode_column(column_of(batch, attribute), attribute, codes.dtype)
    return codes


def _row_dtype(layout: Layout) -> type[np.integer]:
    return code_dtype(layout.schema) if isinstance(layout, TableLayout) else np.int32


def items_inside(items: pa.Array, count: int) -> pa.Array | None:
    """Which items are in 0 .. count - 1, a boolean Arrow array; None if all are. A null is not."""
    ends = pc.min_max(items)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if items.null_count == 0 and (low is None or (low >= 0 and high < count)):
        return None
    values = numbers_of(items)
    inside = booleans((values >= 0) & (values < count))
    return pc.and_(inside, items.is_valid()) if items.null_count else inside
