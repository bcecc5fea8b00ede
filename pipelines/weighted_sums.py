"""Attributes that are weighted sums of columns: durations, differences, totals. TRUSTED. No value makes a sum fail.

A query about a linear combination of columns, such as "discharge - admission is at most 7 days" or "the difference of
two grades is at most 1", is a prefix or a range of the sum. The sum of a row depends on that row alone, so that nothing
changes in the sensitivity of what is counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.arrow import booleans
from pipelines.attributes import Attribute, Kind
from pipelines.column_codes import numbers

_LARGEST_SUM = 1 << 62


def column_of(batch: pa.RecordBatch, attribute: Attribute) -> pa.Array:
    """The values of an attribute, [rows]: a column of the batch, or the weighted sum of several. SENSITIVE.

    batch: Rows with the attribute's columns.
    attribute: The attribute.

    Sums of integers and days are int64. There, every column is clamped so that no sum leaves the range of an integer;
    with coefficients that add up to 1,000 that changes numbers beyond 10^15 alone. If a column or a coefficient is no
    integer, sums are float64, and one of infinities may be NaN.
    """
    if not attribute.sum_of:
        return batch.column(attribute.column)
    kind = Kind.DATE if attribute.dates else attribute.kind
    columns = [numbers(batch.column(name), kind) for name, _ in attribute.sum_of]
    coefficients = [coefficient for _, coefficient in attribute.sum_of]
    total = _total([values for values, _ in columns], coefficients)
    if attribute.absolute:
        total = np.abs(total)
    nulls = [null for _, null in columns if null is not None]
    present = booleans(~np.logical_or.reduce(nulls)).buffers()[1] if nulls else None
    return pa.Array.from_buffers(pa.type_for_alias(total.dtype.name), total.size, [present, pa.py_buffer(total)])


def _total(
    columns: list[NDArray[np.int64] | NDArray[np.float64]], coefficients: list[int | float]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """The weighted sum, [rows]."""
    if any(values.dtype.kind == "f" for values in columns) or any(isinstance(one, float) for one in coefficients):
        parts = [values.astype(np.float64) for values in columns]
    else:
        limit = _LARGEST_SUM // sum(int(abs(coefficient)) for coefficient in coefficients)
        parts = [np.clip(values, -limit, limit) for values in columns]
    with np.errstate(all="ignore"):
        products = [coefficient * part for coefficient, part in zip(coefficients, parts, strict=True)]
        return np.asarray(sum(products[1:], start=products[0]))
