"""Uniform integers from the operating system. There is no seed. TRUSTED."""

from __future__ import annotations

import os
import secrets

import numpy as np
from numpy.typing import NDArray


def words(count: int) -> NDArray[np.uint64]:
    """``count`` independent uniform 64-bit words."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def below(bound: int) -> int:
    """One uniform integer in [0, bound), of any size."""
    return secrets.randbelow(bound)


def each_below(bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Independent uniform integers in [0, bounds[i]); bounds are >= 1.

    Source: rejection from the smallest power of two that covers the bound, at most 2 tries on average.
    """
    masks = _masks(bounds)
    drawn = words(len(bounds)) & masks
    again = np.flatnonzero(drawn >= bounds)
    while again.size:
        drawn[again] = words(len(again)) & masks[again]
        again = again[drawn[again] >= bounds[again]]
    return drawn


def _masks(bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The smallest 2^b - 1 that is at least bound - 1."""
    masks = bounds - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks = masks | (masks >> np.uint64(shift))
    return masks
