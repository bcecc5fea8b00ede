"""Conversion between Arrow and NumPy arrays, without a copy if their memory layouts agree.

pyarrow's own conversions import pandas if it is installed, which may take a worker longer than the counting itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """Integers, floats or booleans [rows], read-only. Values of null entries are arbitrary."""
    if pa.types.is_boolean(column.type):
        return numbers_of(column.cast(pa.uint8())).view(np.bool_)
    dtype = np.dtype(_FLOATS[column.type.bit_width] if pa.types.is_floating(column.type) else str(column.type))
    if not len(column):
        return np.empty(0, dtype=dtype)
    return np.frombuffer(column.buffers()[1], dtype=dtype, count=len(column), offset=column.offset * dtype.itemsize)


def nulls_of(column: pa.Array) -> NDArray[np.bool_]:
    """bool [rows], True for null entries."""
    return numbers_of(column.is_null())


def integers(values: NDArray[np.integer]) -> pa.Array:
    """An Arrow array of integers that shares the memory of ``values`` if it is contiguous."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.type_for_alias(values.dtype.name), values.size, [None, pa.py_buffer(values)])


def booleans(values: NDArray[np.bool_]) -> pa.Array:
    """An Arrow array of booleans."""
    return integers(values.view(np.uint8)).cast(pa.bool_())


def texts(values: Sequence[str]) -> pa.Array:
    """An Arrow array of strings (large_string)."""
    encoded = [value.encode() for value in values]
    stops = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(stops), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def decoded(column: pa.Array) -> pa.Array:
    """The column without a dictionary, and text as large_string: a short dictionary may stand for over 2 GB of text."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.large_string()) if _is_text(column.type) else column
    if _is_text(column.type.value_type):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column.dictionary_decode()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_string_view(kind))


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turns text of type string_view, which pyarrow can neither take nor look up, into large_string."""
    for place, field in enumerate(batch.schema):
        in_dictionary = pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type)
        if not in_dictionary and not pa.types.is_string_view(field.type):
            continue
        column = batch.column(place)
        if in_dictionary:
            column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
        else:
            column = column.cast(pa.large_string())
        batch = batch.set_column(place, field.name, column)
    return batch
