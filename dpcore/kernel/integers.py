"""Exact integers beyond 64 bits: sums, and clipping back to 64 bits. TRUSTED."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

LARGEST_SCORE: Final = 1 << 62


def exact_sum(values: NDArray[np.int64]) -> int:
    """The exact sum of at most 2^31 non-negative numbers, as a Python integer."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def saturated(values: Sequence[int]) -> NDArray[np.int64]:
    """The integers clipped to [-2^62, 2^62], as int64. Clipping never increases the distance between two of them."""
    return np.array([max(-LARGEST_SCORE, min(LARGEST_SCORE, value)) for value in values], dtype=np.int64)
