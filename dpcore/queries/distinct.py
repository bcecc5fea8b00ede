"""Distinct rows of integers in the order in which they first come."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_EMPTY = -1


@final
class DistinctRows:
    """Up to ``most`` distinct rows of ``width`` integers; offers of rows that it has are passed over."""

    def __init__(self, max_rows: int, width: int) -> None:
        self._rows = np.empty((max_rows, width), dtype=np.int32)
        # Open addressing, at most half full.
        self._slots = np.full(1 << (2 * max_rows).bit_length(), _EMPTY, dtype=np.int32)
        self._found = 0

    def __len__(self) -> int:
        return self._found

    @property
    def rows(self) -> NDArray[np.int32]:
        """int32 [len, width], first come first."""
        return self._rows[: self._found]

    def offer(self, rows: NDArray[np.int32]) -> None:
        """Takes new rows in their order until there are ``most``. rows: int32 [n, width], the numbers 0 or more."""
        self._found = _insert(rows, self._rows, self._slots, self._found)


@compiled
def _insert(rows: NDArray[np.int32], kept: NDArray[np.int32], slots: NDArray[np.int32], count: int) -> int:
    """The number of kept rows after all of ``rows`` were offered."""
    last = np.uint64(slots.size - 1)
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        if count == kept.shape[0]:
            break
        mixed = np.uint64(0)
        for index in range(width):
            # The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
            mixed += np.uint64(rows[row, index]) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
        slot = mixed & last
        while slots[slot] >= 0:
            same = True
            for index in range(width):
                same = same and kept[slots[slot], index] == rows[row, index]
            if same:
                break
            slot = (slot + np.uint64(1)) & last
        if slots[slot] < 0:
            kept[count] = rows[row]
            slots[slot] = count
            count += 1
    return count
