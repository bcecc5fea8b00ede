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

_LARGEST_TOTAL: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Satisfactions:
    """A histogram of units per group of queries, by the number of queries of the group that a unit satisfies.

    Cell c counts the units whose number of satisfied queries has c binary digits.

    rows: Bit row of each literal, uint32 [m, k].
    packing: The columns that have a bit row.
    groups: Group of each query, int32 [m].
    group_sizes: Number of queries of each group, int64 [groups].
    cells: Number of cells per group.
    """

    rows: NDArray[np.uint32]
    packing: Packing
    groups: NDArray[np.int32]
    group_sizes: NDArray[np.int64]
    cells: int

    @classmethod
    def of(cls, request: SatisfactionHistogram) -> Satisfactions:
        """The aggregator of a request."""
        return cls(*_packed(request.queries), _groups(request), request.group_sizes, request.cells)

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
        for span, bits in self.packing.slabs(block):
            satisfied, _ = _satisfied(bits, self.rows, self.groups, self.group_sizes)
            _bin_units(cells, satisfied[:, : span.stop - span.start])
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
        for _, bits in self.packing.slabs(block):
            satisfied, met = _satisfied(bits, self.rows, self.groups, self.group_sizes)
            added = np.take_along_axis(self.weights, satisfied, axis=1)
            if not _add_totals(totals, satisfied, added, _LARGEST_TOTAL):
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
        sums, totals = values[: self.groups.size], values[self.groups.size :]
        group_sums, largest = np.zeros_like(totals), np.zeros_like(totals)
        # The sums are added modulo 2^64, but this wraps around only if some sum exceeds what the units can add.
        np.add.at(group_sums, self.groups, sums)
        np.maximum.at(largest, self.groups, sums)
        max_weights = self.weights.max(axis=1)
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

    met: Receives the indices of the queries that some record satisfies, int64 [m].
    counters: One counter per group and record, bit by bit, uint64 [groups, bits, words]; plane p holds bit p of each
        counter. Adding 1 to the counters of all records that satisfy a query takes as many steps as the longest carry.

    Returns: The number of queries in ``met``.
    """
    order, words = rows.shape[1], bits.shape[1]
    second, third = min(1, order - 1), min(2, order - 1)
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
        if left:
            met[count] = query
            count += 1
            group, plane = groups[query], 0
            while left:
                left = np.uint64(0)
                for word in range(words):
                    carry = counters[group, plane, word] & both[word]
                    counters[group, plane, word] ^= both[word]
                    both[word] = carry
                    left |= carry
                plane += 1
    return count


@compiled
def _bin_units(cells: NDArray[np.int64], satisfied: NDArray[np.int64]) -> None:
    for group in range(satisfied.shape[0]):
        for count in satisfied[group]:
            cell = 0
            while count >> cell:
                cell += 1
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
