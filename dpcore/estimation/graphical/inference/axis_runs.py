"""Sums and products of tables with many short axes, as tables with a few long axes, which are much faster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def summed(values: NDArray[np.float64], kept: Sequence[bool]) -> NDArray[np.float64]:
    """The table summed over every axis that is not kept; the other axes stay in order.

    values: float64, contiguous.
    kept: For each axis, whether it is kept.
    """
    lengths, inside = _runs(values.shape, kept)
    axes = tuple(axis for axis, is_inside in enumerate(inside) if not is_inside)
    sizes = [size for size, is_kept in zip(values.shape, kept, strict=True) if is_kept]
    return np.asarray(values.reshape(lengths).sum(axis=axes)).reshape(sizes)


def multiply(values: NDArray[np.float64], factors: NDArray[np.float64], kept: Sequence[bool]) -> None:
    """Multiplies a table in place by factors that have its kept axes, in order.

    values: float64, contiguous.
    factors: float64.
    kept: For each axis of the table, whether the factors have it.
    """
    lengths, inside = _runs(values.shape, kept)
    shape = [length if is_inside else 1 for length, is_inside in zip(lengths, inside, strict=True)]
    merged = values.reshape(lengths)
    merged *= factors.reshape(shape)


def _runs(shape: Sequence[int], kept: Sequence[bool]) -> tuple[list[int], list[bool]]:
    """Lengths of runs of neighbouring axes that are all kept or all not, and whether each run is kept."""
    lengths: list[int] = []
    inside: list[bool] = []
    for size, is_kept in zip(shape, kept, strict=True):
        if inside and inside[-1] == is_kept:
            lengths[-1] *= size
        else:
            lengths.append(size)
            inside.append(bool(is_kept))
    return lengths, inside
