"""Counts parities on bitmaps: the XOR of their columns, 64 records at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from dpcore.queries import Parities
from pipelines.aggregators.packing import Packing, missing_of, ones_of
from pipelines.aggregators.protocol import SLOTS, Block, enter_block, extract_counts, merge_counts


@dataclass(frozen=True, eq=False)
class ParityCounts:
    """Counts the records (units of baskets, kept rows of a table) in which an even number of the columns is 1.

    rows: Bit row of each column of each parity, int32 [m, k]; -1 for none.
    packing: The columns that have a bit row.
    max_records: Maximum number of records of a unit: the row bound of a table, 1 for baskets.
    """

    rows: NDArray[np.int32]
    packing: Packing
    max_records: int

    @classmethod
    def of(cls, queries: Parities, max_records: int) -> ParityCounts:
        """The aggregator of these parities."""
        packing = Packing.of(queries.view, queries.columns[queries.columns >= 0])
        rows = np.where(queries.columns >= 0, packing.row_of[queries.columns], -1).astype(np.int32)
        return cls(rows, packing, max_records)

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(len(self.rows) + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, self.max_records)
        for span, bits in self.packing.slabs(block):
            _count(accumulator, bits, missing_of(span, bits), self.rows)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, len(self.rows) + SLOTS, self.max_records)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, records = extract_counts(accumulator, len(self.rows) + SLOTS, self.max_records)
        if counts.max() > records:
            raise IntegrityError("the count of a parity exceeds the number of records; want every slice exactly once")
        return counts


@compiled
def _count(counts: NDArray[np.int64], bits: NDArray[np.uint64], missing: int, rows: NDArray[np.int32]) -> None:
    """Adds the counts of one slab of records.

    missing: Number of bits after the last record. They are 0, so they count as records with an even number of ones.
    """
    words = bits.shape[1]
    odd = np.empty(words, dtype=np.uint64)
    for query in range(rows.shape[0]):
        odd[:] = 0
        for position in range(rows.shape[1]):
            row = rows[query, position]
            if row >= 0:
                for word in range(words):
                    odd[word] ^= bits[row, word]
        total = np.int64(0)
        for word in range(words):
            total += ones_of(odd[word])
        counts[query] += 64 * words - total - missing
