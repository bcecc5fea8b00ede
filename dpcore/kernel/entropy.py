"""Uniform random integers from the operating system, without a seed. TRUSTED."""

from __future__ import annotations

import os
import secrets

import numpy as np
from numpy.typing import NDArray


def words(count: int) -> NDArray[np.uint64]:
    """Draws ``count`` independent uniform 64-bit words, uint64 [count]."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def below(bound: int) -> int:
    """Draws one uniform integer in [0, bound); the bound may have any size."""
    return secrets.randbelow(bound)


def each_below(bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Draws independent uniform integers, uint64 [n]; integer i lies in [0, bounds[i]).

    bounds: uint64 [n], at least 1.

    Method: rejection from the smallest power of two that is at least the bound; at most 2 tries on average.
    """
    masks = _masks(bounds)
    drawn = words(len(bounds)) & masks
    rejected = np.flatnonzero(drawn >= bounds)
    while rejected.size:
        drawn[rejected] = words(len(rejected)) & masks[rejected]
        rejected = rejected[drawn[rejected] >= bounds[rejected]]
    return drawn


def _masks(bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The smallest 2^k - 1 that is at least bound - 1, for each bound."""
    masks = bounds - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks = masks | (masks >> np.uint64(shift))
    return masks
