"""Counts units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from pipelines.aggregators.protocol import SLOTS, Block, enter_block, extract_counts, merge_counts


@dataclass(frozen=True)
class Units:
    """Counts the units that have at least one valid row.

    max_records: Maximum number of records of a unit.
    """

    max_records: int

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(1 + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, self.max_records)
        accumulator[0] += block.units
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, 1 + SLOTS, self.max_records)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, _ = extract_counts(accumulator, 1 + SLOTS, self.max_records)
        if counts[0] != accumulator[-1]:
            raise IntegrityError("the number of units differs from the total of units; want every slice exactly once")
        return counts
