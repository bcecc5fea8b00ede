"""The codes of one column: the index of each value among the listed values or bins. TRUSTED. No value makes it fail."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.compiled import compiled
from pipelines.arrow import booleans, integers, nulls_of, numbers_of, texts
from pipelines.attributes import Attribute, Kind

# Marks of values that are neither listed nor in a bin; encode_column maps them to codes.
UNKNOWN, NULL, NOT_FINITE = -1, -2, -3
_INT64 = np.iinfo(np.int64)
_TICKS_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def encode_column(column: pa.Array, attribute: Attribute, dtype: np.dtype[np.integer]) -> NDArray[np.integer]:
    """Codes of one column, [rows]."""
    code_of = np.empty(attribute.known + 3, dtype=dtype)
    # The marks -1, -2 and -3 index the table from its end.
    code_of[: attribute.known] = np.arange(attribute.known)
    code_of[UNKNOWN] = attribute.other_code
    code_of[NULL] = code_of[NOT_FINITE] = attribute.null_code
    return code_of[marked_codes(column, attribute)]


def marked_codes(column: pa.Array, attribute: Attribute) -> NDArray[np.int32]:
    """Index of each value among the listed values or bins, or UNKNOWN, NULL or NOT_FINITE, int32 [rows]."""
    if attribute.values:
        return _listed_indices(column, attribute)
    values, null = numbers(column, attribute.kind)
    edges = _inner_edges(attribute, values.dtype)
    marked = _bins(values, edges)
    if values.dtype == np.float64:
        marked[~np.isfinite(values)] = NOT_FINITE
    if null is not None:
        marked[null] = NULL
    return marked


def numbers(column: pa.Array, kind: Kind) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.bool_] | None]:
    """The values of a column on the scale of the edges of an attribute.

    column: Integers, floats, decimals, dates or timestamps.
    kind: Type of the attribute.

    Returns: The values, int64 or float64 [rows]; and which of them are null, bool [rows], or None if none is.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    null = nulls_of(column) if column.null_count else None
    if kind is Kind.DATE:
        return _days(column), null
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values = numbers_of(column)
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False), null
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_INT64.max))
    return values.astype(np.int64, copy=False), null


def _listed_indices(column: pa.Array, attribute: Attribute) -> NDArray[np.int32]:
    """Index of each value among the listed values, or UNKNOWN or NULL, int32 [rows]."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    listed, listed_indices = _comparable(attribute, column.dictionary.type)
    matches = pc.index_in(column.dictionary, value_set=listed)
    index_of = np.full(len(column.dictionary) + 1, UNKNOWN, dtype=np.int32)
    index_of[:-1][~nulls_of(matches)] = listed_indices[numbers_of(matches.drop_null())]
    # A dictionary may contain null as one of its values.
    index_of[:-1][nulls_of(column.dictionary)] = NULL
    index_of[-1] = NULL
    indices = numbers_of(column.indices)
    if column.indices.null_count:
        indices = np.where(nulls_of(column.indices), len(column.dictionary), indices)
    marked: NDArray[np.int32] = index_of[indices]
    return marked


def _comparable(attribute: Attribute, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.int32]]:
    """The listed values that the column's type can hold, in that type, and their indices."""
    values = list(enumerate(attribute.values))
    if pa.types.is_integer(kind):
        bounds = np.iinfo(str(kind))
        values = [(index, value) for index, value in values if int(bounds.min) <= int(value) <= int(bounds.max)]
        listed = integers(np.array([value for _, value in values], dtype=str(kind)))
    elif pa.types.is_boolean(kind):
        listed = booleans(np.array(attribute.values, dtype=np.bool_))
    else:
        listed = texts([str(value) for value in attribute.values]).cast(kind)
    return listed, np.array([index for index, _ in values], dtype=np.int32)


def _days(column: pa.Array) -> NDArray[np.int64]:
    """Days since 1970-01-01, in UTC if the column has a time zone. Values of null entries are arbitrary."""
    kind = column.type
    if pa.types.is_date32(kind):
        return numbers_of(column.view(pa.int32())).astype(np.int64)
    ticks = numbers_of(column.view(pa.int64()))
    ticks_per_day = _TICKS_PER_DAY["ms"] if pa.types.is_date64(kind) else _TICKS_PER_DAY[kind.unit]
    days: NDArray[np.int64] = ticks // ticks_per_day
    return days


def _inner_edges(attribute: Attribute, dtype: np.dtype[np.generic]) -> NDArray[np.int64] | NDArray[np.float64]:
    """The edges between bins. For integer values they are rounded up to integers, which split them in the same way."""
    if dtype == np.float64:
        return np.array(attribute.edges[1:-1], dtype=np.float64)
    inner = [max(math.ceil(edge), _INT64.min) for edge in attribute.edges[1:-1]]
    return np.array([edge for edge in inner if edge <= _INT64.max], dtype=np.int64)


@compiled
def _bins(values: NDArray[np.generic], edges: NDArray[np.generic]) -> NDArray[np.int32]:
    """The number of inner edges at or below each value, int32 [rows]. It is arbitrary for NaN."""
    bins = np.empty(values.size, dtype=np.int32)
    for row in range(values.size):
        low, high = 0, edges.size
        while low < high:
            middle = (low + high) >> 1
            if edges[middle] <= values[row]:
                low = middle + 1
            else:
                high = middle
        bins[row] = low
    return bins
