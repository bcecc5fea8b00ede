"""Sums of neighbouring values as implicit matrices: weighted ranges, prefixes, totals, and all ranges there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from tests.support.implicit_matrices import StructuredMatrix
from tests.support.linear_operators import Real


@dataclass(frozen=True, eq=False)
class Ranges(StructuredMatrix):
    """Row q is weights[q] times the sum of the values low[q], ..., high[q] - 1. Everything costs O(m + n), A'A O(n^2).

    size: n.
    low, high: int64 [m], 0 <= low < high <= n.
    weights: float64 [m].

    Raises ValueError for other arrays.
    """

    size: int
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weights: Real = field(default_factory=lambda: np.ones(1))

    def __post_init__(self) -> None:
        low, high = frozen(self.low, np.int64), frozen(self.high, np.int64)
        weights = frozen(np.broadcast_to(self.weights, low.shape), np.float64)
        if low.ndim != 1 or low.shape != high.shape or not low.size:
            raise ValueError(f"ends of shapes {low.shape} and {high.shape}; want two vectors of one length")
        if low.min() < 0 or high.max() > self.size or (low >= high).any():
            raise ValueError(f"a range that is empty or leaves 0 .. {self.size}; want 0 <= low < high <= {self.size}")
        for name, value in (("low", low), ("high", high), ("weights", weights)):
            object.__setattr__(self, name, value)

    @classmethod
    def total(cls, size: int) -> Ranges:
        """One row of ones."""
        return cls(size, np.zeros(1, dtype=np.int64), np.full(1, size))

    @classmethod
    def prefixes(cls, size: int) -> Ranges:
        """Row i sums the values up to i, as ``ranges.prefix``."""
        return cls(size, np.zeros(size, dtype=np.int64), np.arange(1, size + 1))

    @classmethod
    def of_width(cls, size: int, width: int) -> Ranges:
        """The size - width + 1 sums of ``width`` neighbours. Raises ValueError for a width outside 1 .. size."""
        if not 1 <= width <= size:
            raise ValueError(f"ranges of {width} values of {size}; want 1 .. {size}")
        low = np.arange(size - width + 1)
        return cls(size, low, low + width)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.low), self.size

    def _times(self, columns: Real) -> Real:
        sums = np.zeros((self.size + 1, columns.shape[1]))
        np.cumsum(columns, axis=0, out=sums[1:])
        return np.asarray(self.weights[:, None] * (sums[self.high] - sums[self.low]))

    def _transposed_times(self, columns: Real) -> Real:
        return self._covered(self.weights[:, None] * columns)

    def column_norms(self, order: Literal[1, 2]) -> Real:
        norms = self._covered(np.abs(self.weights[:, None]) ** order)[:, 0]
        return norms if order == 1 else np.sqrt(norms)

    def _gram(self) -> Real:
        return self.weighted_gram(self.weights**2)

    def weighted_gram(self, weights: Real) -> Real:
        """sum of weights[q] 1_q 1_q' over the ranges q, float64 [n, n]; a weight may have either sign."""
        together = np.zeros((self.size, self.size))
        np.add.at(together, (self.low, self.high - 1), weights)
        np.cumsum(together, axis=0, out=together)
        np.cumsum(together[:, ::-1], axis=1, out=together[:, ::-1])
        upper = np.triu(together)
        return np.asarray(upper + np.triu(upper, 1).T)

    def _covered(self, amounts: Real) -> Real:
        """For every value the sum of the amounts, float64 [m, k], of the ranges that hold it: [n, k]."""
        changes = np.zeros((self.size + 1, amounts.shape[1]))
        np.add.at(changes, self.low, amounts)
        np.subtract.at(changes, self.high, amounts)
        return np.cumsum(changes, axis=0)[:-1]


@dataclass(frozen=True, eq=False)
class AllRanges(StructuredMatrix):
    """Every range of ``size`` values, n (n + 1) / 2 rows in the order of ``ranges.all_ranges``, in memory O(n)."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    def _starting(self) -> Iterator[tuple[int, slice]]:
        """For every first value its rows."""
        ends = np.cumsum(np.arange(self.size, 0, -1)).tolist()
        for low, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            yield low, slice(start, stop)

    def _times(self, columns: Real) -> Real:
        sums = np.cumsum(columns, axis=0)
        answers = np.empty((self.shape[0], columns.shape[1]))
        for low, rows in self._starting():
            answers[rows] = sums[low:] - (sums[low - 1] if low else 0.0)
        return answers

    def _transposed_times(self, columns: Real) -> Real:
        changes = np.zeros((self.size + 1, columns.shape[1]))
        for low, rows in self._starting():
            changes[low] += columns[rows].sum(axis=0)
            changes[low + 1 :] -= columns[rows]
        return np.cumsum(changes, axis=0)[:-1]

    def _gram(self) -> Real:
        values = np.arange(1.0, self.size + 1)
        return np.asarray(np.minimum.outer(values, values) * (self.size + 1 - np.maximum.outer(values, values)))

    def column_norms(self, order: Literal[1, 2]) -> Real:
        values = np.arange(1.0, self.size + 1)
        rows = values * (self.size + 1 - values)
        return rows if order == 1 else np.sqrt(rows)
