"""Baskets of independent items, as the number of units that hold each item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.model import BasketRows
from dpcore.estimation.row_partitions import LARGEST_UNITS, half_of_counts


@final
@dataclass(frozen=True, eq=False)
class RoundedItems:
    """How many units hold each item, and how many do not. Implements ``RoundedRows``.

    counts: int32 [items, 2]; every row sums to ``units``.
    units: Number of units.
    """

    counts: NDArray[np.int32]
    units: int

    @classmethod
    def of(cls, probabilities: NDArray[np.float64], units: int, generator: np.random.Generator) -> RoundedItems:
        """Rounds the expected number of holders of each item up or down, without bias.

        probabilities: The probability that a unit holds each item, float64 [items].
        units: Number of units, >= 0.
        generator: Algorithmic randomness.

        Raises: ValueError for more than ``LARGEST_UNITS`` units.
        """
        if units > LARGEST_UNITS:
            raise ValueError(f"units is {units}; want at most {LARGEST_UNITS}")
        holders = np.floor(units * probabilities + generator.random(len(probabilities)))
        held = np.clip(holders, 0, units).astype(np.int32)
        return cls(np.stack([held, units - held], axis=1), units)

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> RoundedItems:
        """The counts of the first ``units`` units, or of the others; items are split independently."""
        totals = np.full(len(self.counts), units, dtype=np.int64)
        half = half_of_counts(self.counts, totals, generator, first=first)
        return RoundedItems(half, units if first else self.units - units)

    def rows(self, generator: np.random.Generator) -> BasketRows:
        """Baskets in which a random set of units, of the right number, holds each item."""
        return dealt_items(self.units, self.counts[:, 0], generator)


def dealt_items(units: int, holders: NDArray[np.integer], generator: np.random.Generator) -> BasketRows:
    """Draws, for each item, which units hold it.

    units: Number of units, >= 0.
    holders: How many units hold each item, integers [items] in 0 .. units.
    generator: Algorithmic randomness.
    """
    units_of_item = [generator.choice(units, size=count, replace=False) for count in holders.tolist()]
    unit = np.concatenate(units_of_item).astype(np.int32)
    item = np.repeat(np.arange(len(holders), dtype=np.int32), holders)
    order = np.lexsort((item, unit))
    return BasketRows(units, unit[order], item[order])
