"""Supports of itemsets with intervals, and the result of a search for frequent itemsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.itemsets.rules import Rules


@dataclass(frozen=True, eq=False)
class Supports:
    """How many units hold each of m itemsets of one size. All intervals of one release hold together,
    under the condition that ``frequent_itemsets`` states for upper ends.

    items: int32 [m, size], ascending within each itemset.
    measured: The noisy counts, float64 [m]; they may be negative, and lack what clipping took.
    values: Estimates of the exact counts, float64 [m], >= 0.
    stddev: Standard deviation of the noise of each count; NaN if it is not known.
    lower: Lower ends of the intervals of the exact counts, float64 [m].
    upper: Upper ends, float64 [m].
    """

    items: NDArray[np.int32]
    measured: NDArray[np.float64]
    values: NDArray[np.float64]
    stddev: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def only(self, rows: NDArray[np.int64]) -> Supports:
        """The itemsets at these rows, in their order."""
        return Supports(
            self.items[rows],
            self.measured[rows],
            self.values[rows],
            self.stddev,
            self.lower[rows],
            self.upper[rows],
        )

    def largest_first(self, limit: int, least: float = -np.inf) -> NDArray[np.int64]:
        """Rows of at most ``limit`` itemsets with the largest values, which are at least ``least``, largest first."""
        rows = np.flatnonzero(self.values >= least)
        if rows.size > limit:
            rows = rows[np.argpartition(-self.values[rows], limit - 1)[:limit]]
            rows.sort()
        return np.asarray(rows[np.argsort(-self.values[rows], kind="stable")])


@dataclass(frozen=True)
class Units:
    """The number of units: public, with both ends equal to it, or noisy with an interval. All are at least 1."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class FrequentItemsets:
    """The result of a search for frequent itemsets.

    listed: The frequent itemsets of each size from 1, in order, most frequent first.
    units: The number of units, by which counts are divided.
    rules: The association rules of the listed itemsets.
    """

    listed: tuple[Supports, ...]
    units: Units
    rules: Rules
