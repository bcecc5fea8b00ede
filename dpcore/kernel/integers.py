"""Sums of exact integers that may not fit 64 bits. TRUSTED."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

LARGEST_SCORE: Final = 1 << 62


def exact_sum(values: NDArray[np.int64]) -> int:
    """The sum of at most 2^31 non-negative numbers."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def saturated(values: Sequence[int]) -> NDArray[np.int64]:
    """Integers cut off at +-2^62, int64: no two of them lie further apart than before."""
    return np.array([max(-LARGEST_SCORE, min(LARGEST_SCORE, value)) for value in values], dtype=np.int64)
