"""An aggregator that quotes data when it fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Block

SECRET = "patient-4711"


@dataclass(frozen=True)
class Quoting:
    """An aggregator that fails as libraries do: with a value of the data in its message."""

    def create(self) -> NDArray[np.int64]:
        return np.zeros(1, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        raise ValueError(f"cannot parse {SECRET}")

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        return accumulator
