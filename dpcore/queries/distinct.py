"""A set of distinct integer rows, in the order of their first occurrence."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_EMPTY = -1  # Marks a free slot of the hash table.


@final
class DistinctRows:
    """Up to ``max_rows`` distinct rows of ``width`` non-negative integers; rows that are already held are ignored."""

    def __init__(self, max_rows: int, width: int) -> None:
        self._rows = np.empty((max_rows, width), dtype=np.int32)
        # A hash table with open addressing, at most half full.
        self._slots = np.full(1 << (2 * max_rows).bit_length(), _EMPTY, dtype=np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[np.int32]:
        """The rows in the order of their first occurrence, int32 [len, width]."""
        return self._rows[: self._count]

    def offer(self, rows: NDArray[np.int32]) -> None:
        """Adds new rows, int32 [n, width] and non-negative, in their order until there are ``max_rows``."""
        self._count = _insert(rows, self._rows, self._slots, self._count)


@compiled
def _insert(rows: NDArray[np.int32], kept: NDArray[np.int32], slots: NDArray[np.int32], count: int) -> int:
    """Adds the new rows to ``kept``; returns the number of kept rows."""
    mask = np.uint64(slots.size - 1)
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        if count == kept.shape[0]:
            break
        hashed = np.uint64(0)
        for index in range(width):
            # The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
            hashed += np.uint64(rows[row, index]) + np.uint64(0x9E3779B97F4A7C15)
            hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            hashed ^= hashed >> np.uint64(31)
        slot = hashed & mask
        while slots[slot] >= 0:
            same = True
            for index in range(width):
                same = same and kept[slots[slot], index] == rows[row, index]
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            kept[count] = rows[row]
            slots[slot] = count
            count += 1
    return count
