"""Clipped sums and satisfaction histograms of all pairs of some items of baskets, unit by unit. TRUSTED.

A unit that holds s of the items satisfies s (s - 1) / 2 of their pairs, so the number that determines its weight needs
no look at the pairs themselves. The work is that of the pairs which units really hold, while ``clipped`` reads one bit
of every pair and unit. The two give equal answers, and tests compare them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.itemsets import all_pairs
from pipelines.aggregators.clipped import LARGEST_TOTAL, checked_sums
from pipelines.aggregators.protocol import SLOTS, BasketBlock, Block, enter_block, extract_counts, merge_counts


def items_of_all_pairs(request: SatisfactionHistogram | ClippedSums) -> NDArray[np.int32] | None:
    """The items whose pairs, each once and in lexicographic order, are the queries of a request in one group.

    Returns: int32 [items], ascending and at least two; None for every other request.
    """
    queries = request.queries
    if isinstance(request, SatisfactionHistogram) and request.starts is not None:
        return None
    if queries.order != 2 or request.group_sizes.size > 1 or queries.view.groups or queries.negated.any():
        return None
    items = np.unique(queries.columns)
    if items.size * (items.size - 1) != 2 * queries.size:
        return None
    return items if np.array_equal(all_pairs(items), queries.columns) else None


@dataclass(frozen=True, eq=False)
class PairSatisfactions:
    """A histogram of units by the number of pairs of the items that they hold.

    rank_of: Rank of each item among the items whose pairs are counted, int32 [items of the view]; -1 for other items.
    items: Number of items whose pairs are counted.
    cells: Number of cells.
    """

    rank_of: NDArray[np.int32]
    items: int
    cells: int

    @classmethod
    def of(cls, request: SatisfactionHistogram, items: NDArray[np.int32]) -> PairSatisfactions:
        """The aggregator of a request whose queries are all pairs of the items."""
        return cls(_ranks(request.queries, items), items.size, request.cells)

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self.cells + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, 1)
        block = _of_baskets(block)
        _bin_units(accumulator[:-SLOTS], block.starts, block.items, self.rank_of, self.items)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self.cells + SLOTS, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, units = extract_counts(accumulator, self.cells + SLOTS, 1)
        if counts.sum() != units:
            raise IntegrityError("a histogram does not count every unit once; want every slice exactly once")
        return counts


@dataclass(frozen=True, eq=False)
class ClippedPairs:
    """Sums for each pair of the items the weights of the units that hold both.

    The accumulator is that of ``clipped.Clipped`` with one group.

    rank_of: Rank of each item among the items whose pairs are counted, int32 [items of the view]; -1 for other items.
    items: Number of items whose pairs are counted.
    weights: Weight by the number of pairs that a unit holds, int64 [1, pairs + 1 or more].
    """

    rank_of: NDArray[np.int32]
    items: int
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, request: ClippedSums, items: NDArray[np.int32]) -> ClippedPairs:
        """The aggregator of a request whose queries are all pairs of the items."""
        return cls(_ranks(request.queries, items), items.size, request.weights)

    @property
    def _pairs(self) -> int:
        return self.items * (self.items - 1) // 2

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self._pairs + 1 + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, 1)
        block = _of_baskets(block)
        sums, total = accumulator[: self._pairs], accumulator[self._pairs : self._pairs + 1]
        if not _add_pairs(sums, total, block.starts, block.items, self.rank_of, self.items, self.weights[0]):
            raise EngineError("a clipped sum does not fit 64 bits; want smaller weights, or fewer units")
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self._pairs + 1 + SLOTS, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        values, units = extract_counts(accumulator, self._pairs + 1 + SLOTS, 1)
        groups = np.zeros(self._pairs, dtype=np.int32)
        return checked_sums(values, units, groups, self.weights)


def _ranks(queries: Conjunctions, items: NDArray[np.int32]) -> NDArray[np.int32]:
    ranks = np.full(queries.view.columns, -1, dtype=np.int32)
    ranks[items] = np.arange(items.size, dtype=np.int32)
    return ranks


def _of_baskets(block: Block) -> BasketBlock:
    if not isinstance(block, BasketBlock):
        raise EngineError("pairs of items were asked of a table; want baskets")
    return block


@compiled
def _held(
    held: NDArray[np.uint64],
    ranks: NDArray[np.int64],
    items: NDArray[np.int32],
    start: int,
    stop: int,
    rank_of: NDArray[np.int32],
) -> int:
    """Writes the ranks of a unit's items into ``ranks``, ascending and each once, and returns their number.

    held: A bitmap of ranks, uint64 [words], all 0 before and after.
    """
    low, high = held.size, -1
    for pair in range(start, stop):
        rank = rank_of[items[pair]]
        if rank >= 0:
            word = rank >> 6
            held[word] |= np.uint64(1) << np.uint64(rank & 63)
            low, high = min(low, word), max(high, word)
    count = 0
    for word in range(low, high + 1):
        bits = held[word]
        held[word] = np.uint64(0)
        rank = word << 6
        while bits:
            if bits & np.uint64(1):
                ranks[count] = rank
                count += 1
            bits >>= np.uint64(1)
            rank += 1
    return count


@compiled
def _bin_units(
    cells: NDArray[np.int64],
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    rank_of: NDArray[np.int32],
    size: int,
) -> None:
    held, ranks = np.zeros((size + 63) // 64, dtype=np.uint64), np.empty(size, dtype=np.int64)
    for unit in range(starts.size - 1):
        count = _held(held, ranks, items, starts[unit], starts[unit + 1], rank_of)
        satisfied, cell = count * (count - 1) // 2, 0
        while satisfied >> cell:
            cell += 1
        cells[cell] += 1


@compiled
def _add_pairs(
    sums: NDArray[np.int64],
    total: NDArray[np.int64],
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    rank_of: NDArray[np.int32],
    size: int,
    weights: NDArray[np.int64],
) -> bool:
    """Adds the weight of each unit to each pair that it holds. Returns False if the total exceeds LARGEST_TOTAL."""
    held, ranks = np.zeros((size + 63) // 64, dtype=np.uint64), np.empty(size, dtype=np.int64)
    for unit in range(starts.size - 1):
        count = _held(held, ranks, items, starts[unit], starts[unit + 1], rank_of)
        satisfied = count * (count - 1) // 2
        weight = weights[satisfied]
        total[0] += satisfied * weight
        if total[0] > LARGEST_TOTAL:
            return False
        if weight == 0:
            continue
        for i in range(count - 1):
            first = ranks[i]
            base = np.uint64(first * (2 * size - first - 1) // 2 - first - 1)
            for j in range(i + 1, count):
                sums[base + np.uint64(ranks[j])] += weight
    return True
