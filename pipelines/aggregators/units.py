"""The number of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from pipelines.aggregators.protocol import SLOTS, Block, entered, extracted, merge_counts


@dataclass(frozen=True)
class Units:
    """Counts units that hold at least one valid row. most: Records that a unit may hold."""

    most: int

    def create(self) -> NDArray[np.int64]:
        return np.zeros(1 + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, self.most)
        accumulator[0] += block.units
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, 1 + SLOTS, self.most)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, _ = extracted(accumulator, 1 + SLOTS, self.most)
        if counts[0] != accumulator[-1]:
            raise IntegrityError("the number of units is not that of the units that were counted")
        return counts
