"""The number of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Block, merge_counts


@dataclass(frozen=True)
class Units:
    """Counts units that hold at least one valid row."""

    def create(self) -> NDArray[np.int64]:
        return np.zeros(1, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        accumulator += block.units
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        return accumulator
