"""Distinct integer rows in lexicographic order, with look-up of many rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, eq=False)
class SortedRows:
    """Distinct rows of ``width`` non-negative integers, as levels of a trie.

    rows: int32 [n, width], distinct and in lexicographic order.
    keys: One array per column, int64 and ascending: the prefixes up to this column, each as index of the prefix before
        it, times ``base``, plus the entry. A row's index is that of its last key.
    base: More than any entry.
    """

    rows: NDArray[np.int32]
    keys: tuple[NDArray[np.int64], ...]
    base: int

    @classmethod
    def of(cls, rows: NDArray[np.int32], base: int) -> tuple[SortedRows, NDArray[np.int64]]:
        """The distinct ones of some rows, and the index of each given row among them: int64 [rows].

        rows: int32 [rows, width], entries in 0 .. base - 1.
        base: More than any entry.
        """
        index = np.zeros(len(rows), dtype=np.int64)
        first = np.empty(0, dtype=np.int64)
        keys = []
        for column in rows.T:
            level, first, index = np.unique(index * base + column, return_index=True, return_inverse=True)
            keys.append(level)
        return cls(np.ascontiguousarray(rows[first]), tuple(keys), base), index

    def find(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """The index of each row, or -1 where it is not among the rows: int64 [rows].

        rows: int32 [rows, width], entries in 0 .. base - 1.
        """
        index = np.zeros(len(rows), dtype=np.int64)
        for level, column in zip(self.keys, rows.T, strict=True):
            wanted = index * self.base + column
            position = np.minimum(np.searchsorted(level, wanted), level.size - 1)
            index = np.where((index >= 0) & (level[position] == wanted), position, -1)
        return index
