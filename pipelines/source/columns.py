"""Checks that files have the columns of a layout in types that fit, and types the columns that are not in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

import numpy as np
import pyarrow as pa

from dpcore.errors import InputError
from pipelines.arrow import booleans, integers, texts
from pipelines.attributes import Attribute, Kind, days_since_epoch
from pipelines.layout import BasketLayout, Layout
from pipelines.row_filter import is_date, is_number
from pipelines.source.data_file import DataFile

_INT64, _UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)


def check_schemas(files: Sequence[tuple[DataFile, pa.Schema]], layout: Layout, *, widened: bool = False) -> None:
    """Checks that every file has every column of the layout once, in one type that fits.

    files: The files, each with the schema in its footer.
    layout: The public layout of the rows.
    widened: Whether numbers may have fewer bits in some files than in others, as in tables that have widened a column.

    Raises: InputError that names the file and the column.
    """
    for column in layout.columns_to_read:
        first_file, first = None, None
        for file, schema in files:
            own = _plain(_type_in(file, schema, column, layout))
            compared = _widest(own) if widened else own
            if column in file.absent:
                continue
            if first is None:
                first_file, first = file.path, compared
            elif compared != first:
                raise InputError(
                    f"column {column!r} of {file.path} has type {own}; in {first_file} it is {first}; want one type"
                )


def misfit(attribute: Attribute, kind: pa.DataType) -> str | None:
    """The type that a column should have for an attribute, in words; None if it has one that fits.

    attribute: The attribute.
    kind: The type of its column, or of a column of its sum.
    """
    fits, wanted = _fitting(attribute)
    return None if fits(_plain(kind)) else wanted


def constant_column(file: DataFile, column: str, layout: Layout, rows: int) -> pa.Array:
    """A column that is not in a file, as an Arrow array [rows] of one value or of nulls.

    Raises: InputError when the value is none of the column's type.
    """
    kind = type_of_constant(layout, column)
    text = dict(file.constants).get(column)
    if text is None:
        return pa.nulls(rows, kind)
    value = _value(text, kind)
    if value is None:
        raise InputError(
            f"column {column!r} of {file.path} is a partition column whose value is not {_WORDS[kind]}; want the type "
            "that the schema or the filter gives to it"
        )
    if pa.types.is_large_string(kind):  # As a dictionary, so that a text is not repeated for every row.
        return pa.DictionaryArray.from_arrays(integers(np.zeros(rows, dtype=np.int32)), value)
    return value.take(integers(np.zeros(rows, dtype=np.int32)))


_WORDS = {
    pa.large_string(): "a string",
    pa.int64(): "an integer",
    pa.uint64(): "an integer",
    pa.bool_(): "true or false",
    pa.date32(): "a date",
    pa.float64(): "a number",
}


def type_of_constant(layout: Layout, column: str) -> pa.DataType:
    """The Arrow type that a column gets whose value is known as text alone."""
    if column in layout.unit_columns:
        return pa.large_string()
    if isinstance(layout, BasketLayout):
        if column == layout.item:
            return pa.int64() if layout.names is None and not layout.any_items else pa.large_string()
    else:
        for attribute in layout.schema.attributes:
            if column in attribute.columns:
                return type_of_attribute(attribute)
    if layout.partition is not None and layout.partition.column == column:
        return layout.partition.arrow_type
    return layout.where.type_of(column)


def type_of_attribute(attribute: Attribute) -> pa.DataType:
    """The Arrow type of an attribute's columns in files that hold text."""
    if attribute.dates:
        return pa.date32()
    if not attribute.values:
        kinds = {Kind.INTEGER: pa.int64(), Kind.FLOAT: pa.float64(), Kind.DATE: pa.date32()}
        return kinds[attribute.kind]
    if isinstance(attribute.values[0], bool):
        return pa.bool_()
    if isinstance(attribute.values[0], str):
        return pa.large_string()
    return pa.uint64() if max(map(int, attribute.values)) > _INT64.max else pa.int64()


def _value(text: str, kind: pa.DataType) -> pa.Array | None:
    """An Arrow array with one value; None if the text is none of the type."""
    if pa.types.is_large_string(kind):
        return texts([text])
    if pa.types.is_boolean(kind):
        known = {"true": True, "false": False}.get(text.lower())
        return None if known is None else booleans(np.array([known]))
    try:
        if pa.types.is_date(kind):
            day = date.fromisoformat(text[:10] if text[10:11] in ("T", " ") else text)
            return integers(np.array([days_since_epoch(day)], dtype=np.int32)).view(pa.date32())
        if pa.types.is_floating(kind):
            return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(np.array([float(text)]))])
        return integers(np.array([int(text)], dtype=str(kind)))
    except (ValueError, OverflowError):
        return None


def _type_in(file: DataFile, schema: pa.Schema, column: str, layout: Layout) -> pa.DataType:
    """The type of a column, after the check that the layout can use it."""
    if column in layout.unit_columns and column in dict(file.constants):
        raise InputError(
            f"column {column!r} of units is in names of folders alone, which messages and logs repeat; want it in the "
            "files"
        )
    if not file.stored(column):
        constant_column(file, column, layout, 1)
        kind = type_of_constant(layout, column)
        _check_partition_type(file, column, kind, layout)
        return kind
    indices = schema.get_all_field_indices(file.stored_name(column))
    if len(indices) != 1:
        raise InputError(
            f"{file.path} has {'no' if not indices else 'more than one'} column {column!r}; want exactly one"
        )
    kind = schema.field(indices[0]).type
    for fits, wanted in _wanted(column, layout):
        if not fits(_plain(kind)):
            raise InputError(f"column {column!r} of {file.path} has type {kind}; want {wanted}")
    _check_partition_type(file, column, kind, layout)
    return kind


def _check_partition_type(file: DataFile, column: str, kind: pa.DataType, layout: Layout) -> None:
    partition = layout.partition
    if partition is not None and partition.column == column and not partition.fitting[0](_plain(kind)):
        raise InputError(f"column {column!r} of {file.path} has type {kind}; want {partition.fitting[1]}")


def _wanted(column: str, layout: Layout) -> list[tuple[Callable[[pa.DataType], bool], str]]:
    """What the layout wants of a column: a check of its plain type, and words for it, for each of its uses."""
    uses: list[tuple[Callable[[pa.DataType], bool], str]] = []
    if column in layout.unit_columns:
        uses.append((_is_unit, "an integer or a string"))
    if isinstance(layout, BasketLayout):
        if column == layout.item:
            if layout.names is None and not layout.any_items:
                uses.append((pa.types.is_integer, "an integer, or a list of names in dataset.items.file"))
            else:
                uses.append((_is_unit, "an integer or a string"))
    else:
        uses += [_fitting(attribute) for attribute in layout.schema.attributes if column in attribute.columns]
    if column in layout.where.columns:
        uses.append(layout.where.fitting(column))
    return uses


def _fitting(attribute: Attribute) -> tuple[Callable[[pa.DataType], bool], str]:
    if attribute.values:
        fitting: dict[type, tuple[Callable[[pa.DataType], bool], str]] = {
            str: (pa.types.is_large_string, "a string"),
            int: (pa.types.is_integer, "an integer"),
            bool: (pa.types.is_boolean, "a boolean"),
        }
        return fitting[type(attribute.values[0])]
    if attribute.kind is Kind.DATE or attribute.dates:
        return is_date, "a date or a timestamp"
    return is_number, "an integer, a float or a decimal"


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without its encoding: a dictionary type becomes its value type, and a string type large_string."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    is_text = pa.types.is_string(kind) or pa.types.is_string_view(kind)
    return pa.large_string() if is_text else kind


def _widest(kind: pa.DataType) -> pa.DataType:
    """The type with the most bits among those that hold the same kind of number."""
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


def _is_unit(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_large_string(kind))
