"""Clipped sums, in which the contribution of a unit depends on the number of queries that it satisfies. TRUSTED.

Each slab of units is read twice: first to count the queries that each unit satisfies, which determines the unit's
weight, and then to add the weight to each of these queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from pipelines.aggregators.packing import Packing
from pipelines.aggregators.protocol import SLOTS, Block, enter_block, extract_counts, merge_counts
from pipelines.aggregators.weighing import planes_of, weigh

LARGEST_TOTAL: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Satisfactions:
    """A histogram of units per group of queries, by the number of queries of the group that a unit satisfies.

    Cell c counts the units whose number of satisfied queries is at least starts[c] and less than starts[c + 1].

    rows: Bit row of each literal, uint32 [m, k].
    packing: The columns that have a bit row.
    groups: Group of each query, int32 [m].
    group_sizes: Number of queries of each group, int64 [groups].
    starts: Smallest number of satisfied queries of each cell, int64 [cells], ascending from 0.
    """

    rows: NDArray[np.uint32]
    packing: Packing
    groups: NDArray[np.int32]
    group_sizes: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, request: SatisfactionHistogram) -> Satisfactions:
        """The aggregator of a request."""
        return cls(*_packed(request.queries), _groups(request), request.group_sizes, request.cell_starts)

    @property
    def cells(self) -> int:
        """Number of cells per group."""
        return self.starts.size

    @property
    def _size(self) -> int:
        return self.group_sizes.size * self.cells

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self._size + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, 1)
        cells = accumulator[:-SLOTS].reshape(-1, self.cells)
        for span, bits in self.packing.slabs(block, by_size=True):
            satisfied, _ = _satisfied(bits, self.rows, self.groups, self.group_sizes)
            _bin_units(cells, satisfied[:, : span.stop - span.start], self.starts)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self._size + SLOTS, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, units = extract_counts(accumulator, self._size + SLOTS, 1)
        if (counts.reshape(-1, self.cells).sum(axis=1) != units).any():
            raise IntegrityError("a histogram does not count every unit once; want every slice exactly once")
        return counts


@dataclass(frozen=True, eq=False)
class Clipped:
    """Sums for each query the weights of the units that satisfy it.

    After the sums, the accumulator holds one total per group g: the sum of k weights[g, k] over all units, where k is
    the number of queries of the group that the unit satisfies. The sums of the group must add up to this total.

    rows: Bit row of each literal, uint32 [m, k].
    packing: The columns that have a bit row.
    groups: Group of each query, int32 [m].
    group_sizes: Number of queries of each group, int64 [groups].
    weights: Weight by the number of satisfied queries, int64 [groups, largest group + 1]. A unit that satisfies k
        queries of group g adds weights[g, k] to each of them.
    """

    rows: NDArray[np.uint32]
    packing: Packing
    groups: NDArray[np.int32]
    group_sizes: NDArray[np.int64]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, request: ClippedSums) -> Clipped:
        """The aggregator of a request."""
        return cls(*_packed(request.queries), _groups(request), request.group_sizes, request.weights)

    @property
    def _size(self) -> int:
        return self.groups.size + len(self.weights) + SLOTS

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self._size, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, 1)
        sums, totals = accumulator[: self.groups.size], accumulator[self.groups.size : -SLOTS]
        positive = np.zeros(self.rows.shape, dtype=np.bool_)
        for _, bits in self.packing.slabs(block, by_size=True):
            satisfied, met = _satisfied(bits, self.rows, self.groups, self.group_sizes)
            added = np.take_along_axis(self.weights, satisfied, axis=1)
            if not _add_totals(totals, satisfied, added, LARGEST_TOTAL):
                raise EngineError("a clipped sum does not fit 64 bits; want smaller weights, or fewer units")
            planes, reach = planes_of(added, bits.shape[1])
            weigh(sums, bits, planes, reach, self.rows, positive, self.groups, met)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self._size, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        values, units = extract_counts(accumulator, self._size, 1)
        return checked_sums(values, units, self.groups, self.weights)


def checked_sums(
    values: NDArray[np.int64], units: int, groups: NDArray[np.int32], weights: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The sums of a whole accumulator, after a check against the totals that follow them.

    values: One sum per query, and then one total per group, int64.
    units: Number of units.
    groups: Group of each query, int32 [queries].
    weights: The table of weights, int64 [groups, largest group + 1 or more].

    Raises: IntegrityError when the sums of a group differ from its total, or a sum exceeds what the units can add.
    """
    sums, totals = values[: groups.size], values[groups.size :]
    group_sums, largest = np.zeros_like(totals), np.zeros_like(totals)
    # The sums are added modulo 2^64, but this wraps around only if some sum exceeds what the units can add.
    np.add.at(group_sums, groups, sums)
    np.maximum.at(largest, groups, sums)
    max_weights = weights.max(axis=1)
    exceeded = any(int(total) > units * int(weight) for total, weight in zip(largest, max_weights, strict=True))
    if (group_sums != totals).any() or exceeded:
        raise IntegrityError("clipped sums differ from their totals; want all slices once each")
    return sums


def _packed(queries: Conjunctions) -> tuple[NDArray[np.uint32], Packing]:
    packing = Packing.of(queries.view, queries.columns)
    return packing.rows_of(queries.columns), packing


def _groups(request: SatisfactionHistogram | ClippedSums) -> NDArray[np.int32]:
    return np.zeros(request.queries.size, dtype=np.int32) if request.groups is None else request.groups


def _satisfied(
    bits: NDArray[np.uint64], rows: NDArray[np.uint32], groups: NDArray[np.int32], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts the queries of each group that each record satisfies.

    Returns: The counts, int64 [groups, 64 * words]; and the indices of queries that some record satisfies, int64.
    """
    counters = np.zeros((sizes.size, int(sizes.max()).bit_length(), bits.shape[1]), dtype=np.uint64)
    met = np.empty(len(rows), dtype=np.int64)
    met = met[: _count_up(counters, bits, rows, groups, met)]
    unpacked = np.unpackbits(counters.astype("<u8", copy=False).view(np.uint8), axis=2, bitorder="little")
    bit_values = 1 << np.arange(counters.shape[1], dtype=np.int64)
    return np.einsum("p,gpr->gr", bit_values, unpacked), met


@compiled
def _count_up(
    counters: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    groups: NDArray[np.int32],
    met: NDArray[np.int64],
) -> int:
    """Counts the satisfied queries of each record in bit-sliced counters.

    A query adds one bit to the counter of each record. Two vectors of bits of the same weight are added to a plane at
    once, which gives one vector of twice the weight (Harley and Seal; Warren, Hacker's Delight, 5-1): a vector waits at
    its plane for the next one, so that a query takes two such steps on average however far its carries reach.

    met: Receives the indices of the queries that some record satisfies, int64 [m].
    counters: One counter per group and record, bit by bit, uint64 [groups, bits, words]; plane p holds bit p of each
        counter. Zeros.

    Returns: The number of queries in ``met``.
    """
    order, words = rows.shape[1], bits.shape[1]
    second, third = min(1, order - 1), min(2, order - 1)
    waiting, waits = np.empty_like(counters), np.zeros(counters.shape[:2], dtype=np.bool_)
    both = np.empty(words, dtype=np.uint64)
    count = 0
    for query in range(rows.shape[0]):
        a, b, c = rows[query, 0], rows[query, second], rows[query, third]
        left = np.uint64(0)
        for word in range(words):
            both[word] = bits[a, word] & bits[b, word] & bits[c, word]
            left |= both[word]
        for literal in range(3, order):
            d = rows[query, literal]
            left = np.uint64(0)
            for word in range(words):
                both[word] &= bits[d, word]
                left |= both[word]
        if not left:
            continue
        met[count] = query
        count += 1
        group, plane = groups[query], 0
        while left and waits[group, plane]:
            waits[group, plane], left = False, np.uint64(0)
            for word in range(words):
                x, y, z = counters[group, plane, word], waiting[group, plane, word], both[word]
                counters[group, plane, word] = x ^ y ^ z
                both[word] = (x & y) | ((x ^ y) & z)
                left |= both[word]
            plane += 1
        if left:
            waits[group, plane] = True
            for word in range(words):
                waiting[group, plane, word] = both[word]
    _add_waiting(counters, waiting, waits)
    return count


@compiled
def _add_waiting(counters: NDArray[np.uint64], waiting: NDArray[np.uint64], waits: NDArray[np.bool_]) -> None:
    """Adds the vectors that still wait at their planes to the counters."""
    for group in range(counters.shape[0]):
        for plane in range(counters.shape[1]):
            if waits[group, plane]:
                for word in range(counters.shape[2]):
                    carry, reached = waiting[group, plane, word], plane
                    while carry:
                        both = counters[group, reached, word] & carry
                        counters[group, reached, word] ^= carry
                        carry = both
                        reached += 1


@compiled
def _bin_units(cells: NDArray[np.int64], satisfied: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    for group in range(satisfied.shape[0]):
        for count in satisfied[group]:
            cell, end = 0, starts.size  # The cell of the count is in cell .. end - 1.
            while end - cell > 1:
                middle = (cell + end) // 2
                if starts[middle] <= count:
                    cell = middle
                else:
                    end = middle
            cells[group, cell] += 1


@compiled
def _add_totals(
    totals: NDArray[np.int64], satisfied: NDArray[np.int64], added: NDArray[np.int64], largest: int
) -> bool:
    """Adds the contributions of the units to the total of each group. Returns False if a total exceeds ``largest``."""
    for group in range(totals.size):
        for record in range(satisfied.shape[1]):
            totals[group] += satisfied[group, record] * added[group, record]
            if totals[group] > largest:
                return False
    return True
