"""How many queries each unit satisfies, and answers to which each unit adds by that number. TRUSTED.

A unit is read twice, in memory: the queries that it satisfies are listed, and then it is known what it adds to each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import ClippedSums, SatisfactionHistogram
from pipelines.aggregators.columns import NamedColumns
from pipelines.aggregators.pivots import Pivots, held_columns, satisfied
from pipelines.aggregators.protocol import SLOTS, Block, entered, extracted, merge_counts

_LARGEST_TOTAL: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Satisfactions:
    """Counts the units of each group of queries by how many of them they satisfy, in powers of two.

    columns: The queries by their columns.
    groups: int32 [m], group of each query.
    cells: Cells of each group.
    """

    columns: NamedColumns
    groups: NDArray[np.int32]
    cells: int

    @classmethod
    def of(cls, request: SatisfactionHistogram) -> Satisfactions:
        return cls(NamedColumns.of(request.queries), _groups(request), request.cells)

    @property
    def _size(self) -> int:
        return (int(self.groups.max()) + 1) * self.cells

    def create(self) -> NDArray[np.int64]:
        return np.zeros(self._size + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, 1)
        cells = accumulator[:-SLOTS].reshape(-1, self.cells)
        pivots = Pivots.of(self.columns.rows, self.columns.degrees(block))
        groups = self.groups[pivots.order]
        for starts, items in self.columns.records(block):
            _bin_units(cells, starts, items, self.columns.row_of, pivots.starts, pivots.others, groups)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, self._size + SLOTS, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, units = extracted(accumulator, self._size + SLOTS, 1)
        if (counts.reshape(-1, self.cells).sum(axis=1) != units).any():
            raise IntegrityError("a group of queries does not bin every unit once; want all slices once each")
        return counts


@dataclass(frozen=True, eq=False)
class Clipped:
    """Sums for each query what the units that satisfy it add, which depends on how many of its group they satisfy.

    columns: The queries by their columns.
    groups: int32 [m], group of each query.
    weights: int64 [groups, k + 1]; a unit that satisfies k queries of group g adds weights[g, k] to each of them.

    Behind the sums the accumulator holds one total a group: k weights[g, k] summed over units, which the sums of the
    group must give again.
    """

    columns: NamedColumns
    groups: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, request: ClippedSums) -> Clipped:
        return cls(NamedColumns.of(request.queries), _groups(request), request.weights)

    @property
    def _size(self) -> int:
        return self.groups.size + len(self.weights) + SLOTS

    def create(self) -> NDArray[np.int64]:
        return np.zeros(self._size, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, 1)
        sums, totals = accumulator[: self.groups.size], accumulator[self.groups.size : -SLOTS]
        pivots = Pivots.of(self.columns.rows, self.columns.degrees(block))
        plan = self.columns.row_of, pivots.starts, pivots.others, self.groups[pivots.order], self.weights
        added = np.zeros(sums.size, dtype=np.int64)
        for starts, items in self.columns.records(block):
            if not _add_units(added, totals, starts, items, *plan, _LARGEST_TOTAL):
                raise EngineError("a clipped sum does not fit 64 bits")
        sums[pivots.order] += added
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, self._size, 1)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        values, units = extracted(accumulator, self._size, 1)
        sums, totals = values[: self.groups.size], values[self.groups.size :]
        again, largest = np.zeros_like(totals), np.zeros_like(totals)
        np.add.at(again, self.groups, sums)  # May wrap around, and then differs from a total below 2^63 all the same.
        np.maximum.at(largest, self.groups, sums)
        most = self.weights.max(axis=1)
        if (again != totals).any() or any(int(s) > units * int(w) for s, w in zip(largest, most, strict=True)):
            raise IntegrityError("clipped sums are not what the units gave; want all slices once each")
        return sums


def _groups(request: SatisfactionHistogram | ClippedSums) -> NDArray[np.int32]:
    return np.zeros(request.queries.size, dtype=np.int32) if request.groups is None else request.groups


@compiled
def _bin_units(
    cells: NDArray[np.int64],
    record_starts: NDArray[np.int64],
    items: NDArray[np.int32],
    row_of: NDArray[np.int32],
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    groups: NDArray[np.int32],
) -> None:
    marked = np.zeros(starts.size, dtype=np.bool_)
    held, hits = np.empty(starts.size, dtype=np.int32), np.empty(groups.size, dtype=np.int64)
    for record in range(record_starts.size - 1):
        here = held[: held_columns(items[record_starts[record] : record_starts[record + 1]], row_of, marked, held)]
        found = hits[: satisfied(here, marked, starts, others, hits)]
        marked[here] = False
        satisfied_of = np.zeros(cells.shape[0], dtype=np.int64)
        for place in found:
            satisfied_of[groups[place]] += 1
        for group in range(cells.shape[0]):
            cell = 0
            while satisfied_of[group] >> cell:
                cell += 1
            cells[group, cell] += 1


@compiled
def _add_units(
    sums: NDArray[np.int64],
    totals: NDArray[np.int64],
    record_starts: NDArray[np.int64],
    items: NDArray[np.int32],
    row_of: NDArray[np.int32],
    starts: NDArray[np.int64],
    others: NDArray[np.int32],
    groups: NDArray[np.int32],
    weights: NDArray[np.int64],
    largest: int,
) -> bool:
    """False when a total, and so perhaps a sum, passes ``largest``."""
    marked = np.zeros(starts.size, dtype=np.bool_)
    held, hits = np.empty(starts.size, dtype=np.int32), np.empty(groups.size, dtype=np.int64)
    weight = np.empty(weights.shape[0], dtype=np.int64)
    for record in range(record_starts.size - 1):
        here = held[: held_columns(items[record_starts[record] : record_starts[record + 1]], row_of, marked, held)]
        found = hits[: satisfied(here, marked, starts, others, hits)]
        marked[here] = False
        satisfied_of = np.zeros(weights.shape[0], dtype=np.int64)
        for place in found:
            satisfied_of[groups[place]] += 1
        for group in range(weights.shape[0]):
            weight[group] = weights[group, satisfied_of[group]]
            totals[group] += satisfied_of[group] * weight[group]
            if totals[group] > largest:
                return False
        for place in found:
            sums[place] += weight[groups[place]]
    return True
