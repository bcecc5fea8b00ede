"""Sums of codes times strides for the cells of a table, kept in two small parts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Offsets(NamedTuple):
    """What each cell of a table adds to some positions elsewhere: high[j // width] + low[j % width] of cell j.

    high, low: Integers [cells / width, positions] and [width, positions].
    """

    high: NDArray[Any]
    low: NDArray[Any]


def cell_offsets(shape: tuple[int, ...], strides: NDArray[np.int64], dtype: type[np.signedinteger[Any]]) -> Offsets:
    """Codes times strides, summed, for the cells of a table of this shape in C order.

    strides: int64 [axes, positions].

    The width is a product of the last sizes, the one with the fewest entries: all tables of a shape have the same.
    """
    entries = [math.prod(shape[:axis]) + math.prod(shape[axis:]) for axis in range(len(shape) + 1)]
    split = entries.index(min(entries))
    return Offsets(_sums(shape[:split], strides[:split], dtype), _sums(shape[split:], strides[split:], dtype))


def _sums(shape: tuple[int, ...], strides: NDArray[np.int64], dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    sums = np.zeros((1, strides.shape[1]), dtype=dtype)
    for size, stride in zip(shape, strides.astype(dtype), strict=True):
        codes = np.arange(size, dtype=dtype)
        sums = (sums[:, None, :] + codes[None, :, None] * stride).reshape(len(sums) * size, len(stride))
    return sums
