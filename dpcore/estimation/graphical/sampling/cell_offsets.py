"""Offsets of the cells of a table: sums of codes times strides, in two small arrays instead of one large one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Offsets(NamedTuple):
    """Offsets of a table's cells in other tables: cell j has the offsets high[j // width] + low[j % width].

    high: Integers [cells / width, tables].
    low: Integers [width, tables].
    """

    high: NDArray[Any]
    low: NDArray[Any]


def cell_offsets(shape: tuple[int, ...], strides: NDArray[np.int64], dtype: type[np.signedinteger[Any]]) -> Offsets:
    """Sums of codes times strides for the cells of a table in C order.

    shape: Shape of the table.
    strides: Stride of each axis in each of the other tables, int64 [axes, tables].
    dtype: Integer type of the offsets.

    The width is a product of the last sizes, chosen so that the two arrays have the fewest entries. It depends on the
    shape alone.
    """
    entries = [math.prod(shape[:axis]) + math.prod(shape[axis:]) for axis in range(len(shape) + 1)]
    split = entries.index(min(entries))
    return Offsets(_sums(shape[:split], strides[:split], dtype), _sums(shape[split:], strides[split:], dtype))


def _sums(shape: tuple[int, ...], strides: NDArray[np.int64], dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Sums of codes times strides for all cells, [cells, tables]."""
    sums = np.zeros((1, strides.shape[1]), dtype=dtype)
    for size, stride in zip(shape, strides.astype(dtype), strict=True):
        codes = np.arange(size, dtype=dtype)
        sums = (sums[:, None, :] + codes[None, :, None] * stride).reshape(len(sums) * size, len(stride))
    return sums
