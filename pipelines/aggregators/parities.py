"""Parities by bitmaps: the exclusive or of their columns, 64 records at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from dpcore.queries import Parities
from pipelines.aggregators.packing import Packing
from pipelines.aggregators.protocol import SLOTS, Block, entered, extracted, merge_counts


@dataclass(frozen=True, eq=False)
class ParityCounts:
    """Counts the records (units of baskets, kept rows of a table) in which an even number of columns is 1.

    rows: int32 [m, k], row of the bitmaps for each column of a parity, -1 for none.
    packing: The columns that get bitmaps.
    most: Records that a unit may hold: rows of a table, 1 for baskets.
    """

    rows: NDArray[np.int32]
    packing: Packing
    most: int

    @classmethod
    def of(cls, queries: Parities, most: int) -> ParityCounts:
        packing = Packing.of(queries.view, queries.columns[queries.columns >= 0])
        rows = np.where(queries.columns >= 0, packing.row_of[queries.columns], -1).astype(np.int32)
        return cls(rows, packing, most)

    def create(self) -> NDArray[np.int64]:
        return np.zeros(len(self.rows) + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, self.most)
        for bits, present in self.packing.pack(block):
            _count(accumulator, bits, present, self.rows)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, len(self.rows) + SLOTS, self.most)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, records = extracted(accumulator, len(self.rows) + SLOTS, self.most)
        if counts.max() > records:
            raise IntegrityError("a parity counts more records than there are; want all slices once each")
        return counts


@compiled
def _count(
    counts: NDArray[np.int64], bits: NDArray[np.uint64], present: NDArray[np.uint64], rows: NDArray[np.int32]
) -> None:
    words = present.size
    even = np.empty(words, dtype=np.uint64)
    for query in range(rows.shape[0]):
        for word in range(words):
            even[word] = ~np.uint64(0)
        for place in range(rows.shape[1]):
            if rows[query, place] >= 0:
                row = bits[rows[query, place]]
                for word in range(words):
                    even[word] ^= row[word]
        total = np.int64(0)
        for word in range(words):
            # Population count of a word (Warren, Hacker's Delight, 5-1), which LLVM turns into one instruction.
            ones = even[word] & present[word]
            ones -= (ones >> np.uint64(1)) & np.uint64(0x5555555555555555)
            ones = (ones & np.uint64(0x3333333333333333)) + ((ones >> np.uint64(2)) & np.uint64(0x3333333333333333))
            ones = (ones + (ones >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            total += np.int64((ones * np.uint64(0x0101010101010101)) >> np.uint64(56))
        counts[query] += total
