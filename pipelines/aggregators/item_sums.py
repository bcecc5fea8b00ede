"""Weighted sums of items whose names are not known in advance. TRUSTED.

An accumulator has no fixed length: it holds the names that have occurred, ordered by a keyed hash and, where hashes are
equal, by the name. Names are compared in full, so a collision of hashes confuses nothing and costs time alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import EngineError, IntegrityError
from dpcore.exact_statistics import NamedSums
from pipelines.aggregators.protocol import Aggregator
from pipelines.hashing import hash_texts, key_of
from pipelines.item_names import ItemNames, text_parts

_HEADER: Final = 4  # Units, total of all sums, items, bytes of names.
_LARGEST_TOTAL: Final = 1 << 62
SLICES: Final = 1 << 6
_SHIFT: Final = np.uint64(64 - (SLICES.bit_length() - 1))  # The first bits of a hash number its slice.
"""Number of slices of an accumulator that an engine may merge apart from each other."""


@dataclass(frozen=True, eq=False)
class NamedPairs:
    """Kept pairs of whole units within the contribution bound, by the name of the item. SENSITIVE.

    starts: Start of each unit in ``items``, int64 [units + 1].
    items: Position of each pair's item in ``names``, int32 [pairs]. An item may occur more than once in a unit.
    names: Arrow large_string [items].
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    names: pa.Array


@dataclass(frozen=True, eq=False)
class _Names:
    """Items in order with their sums: the content of an accumulator. SENSITIVE.

    units, total: Number of units, and sum of all their weights for items of the part.
    hashes: uint64 [items], ascending.
    sums, offsets, data: As in ``NamedSums``.
    """

    units: int
    total: int
    hashes: NDArray[np.uint64]
    sums: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    def packed(self) -> NDArray[np.int64]:
        """The same as one vector."""
        header = np.array([self.units, self.total, self.sums.size, self.data.size], dtype=np.int64)
        padded = np.concatenate([self.data, np.zeros(-self.data.size % 8, dtype=np.uint8)]).view(np.int64)
        return np.concatenate([header, self.hashes.view(np.int64), self.sums, np.diff(self.offsets), padded])

    @classmethod
    def unpacked(cls, vector: NDArray[np.int64]) -> _Names:
        """The content of a vector. Raises IntegrityError for what is none."""
        if vector.dtype != np.int64 or vector.size < _HEADER or vector[:_HEADER].min() < 0:
            raise IntegrityError("an accumulator of items has no header; want all of its slices")
        units, total, items, size = vector[:_HEADER].tolist()
        if vector.size != _HEADER + 3 * items + -(-size // 8):
            raise IntegrityError("an accumulator of items has another length than it says; want all of its slices")
        hashes, sums, lengths = vector[_HEADER : _HEADER + 3 * items].reshape(3, items)
        if items and (min(sums.min(), lengths.min()) < 0 or lengths.sum() != size):
            raise IntegrityError("an accumulator of items has a negative number; want sums over units")
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        data = vector[_HEADER + 3 * items :].view(np.uint8)[:size]
        return cls(units, total, hashes.view(np.uint64), sums, offsets, data)


@dataclass(frozen=True, eq=False)
class ItemSums:
    """Sums for each item the weights of the units that have it. It is merged by engines as any aggregator.

    weights: Weight by the number of distinct items of a unit, int64 [bound + 1], at least 0.
    salt: Key of the hashes. SENSITIVE.
    part, parts: The accumulator holds the items whose hashes are ``part`` modulo ``parts``.
    excluded: Items that are left out before units are truncated; None for none.
    """

    weights: NDArray[np.int64]
    salt: bytes = field(repr=False)
    part: int = 0
    parts: int = 1
    excluded: ItemNames | None = None

    def create(self) -> NDArray[np.int64]:
        """The accumulator of no items, the neutral element of ``merge``."""
        return np.zeros(_HEADER, dtype=np.int64)

    def add_pairs(self, accumulator: NDArray[np.int64], pairs: NamedPairs) -> NDArray[np.int64]:
        """Counts the pairs of whole units; returns a new accumulator.

        Raises: IntegrityError when a unit has more distinct items than there are weights for.
        """
        offsets, data = text_parts(pairs.names)
        hashes = hash_texts(data, offsets, key_of(self.salt))
        wanted = hashes % np.uint64(self.parts) == np.uint64(self.part)
        sums = np.zeros(len(pairs.names), dtype=np.int64)
        if not _add_units(sums, pairs.starts, pairs.items, self.weights):
            raise IntegrityError(f"a unit has more distinct items than declared; want at most {self.weights.size - 1}")
        counted = np.flatnonzero(wanted & (sums > 0))
        order = counted[np.argsort(hashes[counted], kind="stable")]
        order = _ordered_by_name(order, hashes, offsets, data)
        starts, gathered = _gathered(order, offsets, data)
        units = pairs.starts.size - 1
        added = _Names(units, int(sums[order].sum()), hashes[order], sums[order], starts, gathered)
        return self.merge(accumulator, added.packed())

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns a new one.

        Raises: IntegrityError when one is no accumulator; EngineError when a sum might not fit int64.
        """
        first, second = _Names.unpacked(left), _Names.unpacked(right)
        units, total = first.units + second.units, first.total + second.total
        if max(units, total) > _LARGEST_TOTAL:
            raise EngineError("a sum of items does not fit 64 bits; want fewer units")
        if not first.sums.size or not second.sums.size:
            return replace(first if first.sums.size else second, units=units, total=total).packed()
        hashes, sums, offsets, data, items = _merged(
            (first.hashes, first.sums, first.offsets, first.data),
            (second.hashes, second.sums, second.offsets, second.data),
        )
        size = offsets[items]
        return _Names(units, total, hashes[:items], sums[:items], offsets[: items + 1], data[:size]).packed()

    def split(self, accumulator: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields numbered slices of an accumulator. The slices of one number can be merged; the first counts units."""
        whole = _Names.unpacked(accumulator)
        bounds = np.searchsorted(whole.hashes, np.arange(1, SLICES).astype(np.uint64) << _SHIFT)
        for number, (start, stop) in enumerate(pairwise([0, *bounds.tolist(), whole.sums.size])):
            if start == stop and number:
                continue
            first, last = whole.offsets[start], whole.offsets[stop]
            part = _Names(
                0 if number else whole.units,
                0 if number else whole.total,
                whole.hashes[start:stop],
                whole.sums[start:stop],
                whole.offsets[start : stop + 1] - first,
                whole.data[first:last],
            )
            yield number, part.packed()

    def join(self, slices: Iterable[tuple[int, NDArray[np.int64]]]) -> NDArray[np.int64]:
        """The accumulator of merged slices, each number at most once, in any order."""
        ordered = [_Names.unpacked(part) for _, part in sorted(slices, key=lambda numbered: numbered[0])]
        if not ordered:
            return self.create()
        lengths = np.concatenate([np.diff(part.offsets) for part in ordered])
        return _Names(
            sum(part.units for part in ordered),
            sum(part.total for part in ordered),
            np.concatenate([part.hashes for part in ordered]),
            np.concatenate([part.sums for part in ordered]),
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
            np.concatenate([part.data for part in ordered]),
        ).packed()

    def extract(self, accumulator: NDArray[np.int64]) -> NamedSums:
        """The sums of a whole accumulator, checked against its totals.

        Raises: IntegrityError when a slice was lost or merged twice, or a sum exceeds what the units can add.
        """
        whole = _Names.unpacked(accumulator)
        in_order = bool((whole.hashes[1:] >= whole.hashes[:-1]).all())
        exceeds = whole.sums.size > 0 and int(whole.sums.max()) > whole.units * int(self.weights.max())
        # Modulo 2^64; this wraps around only if some sum exceeds what the units can add.
        if int(whole.sums.sum()) != whole.total or exceeds or not in_order:
            raise IntegrityError("sums of items differ from their totals; want all slices once each")
        return NamedSums(whole.data, whole.offsets, whole.sums, whole.units)


AnyAggregator = Aggregator | ItemSums
"""What engines merge."""


def _ordered_by_name(
    order: NDArray[np.int64], hashes: NDArray[np.uint64], offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """The order by hash, in which names of equal hashes are brought into the order of their bytes."""
    if not (hashes[order][1:] == hashes[order][:-1]).any():
        return order
    names = {item: data[offsets[item] : offsets[item + 1]].tobytes() for item in order.tolist()}
    return np.array(sorted(names, key=lambda item: (int(hashes[item]), names[item])), dtype=np.int64)


@compiled
def _add_units(
    sums: NDArray[np.int64], starts: NDArray[np.int64], items: NDArray[np.int32], weights: NDArray[np.int64]
) -> bool:
    """Adds the weight of each unit once to each of its items. Returns False if a unit has too many distinct items."""
    last_unit = np.full(sums.size, -1, dtype=np.int64)
    for unit in range(starts.size - 1):
        distinct = 0
        for pair in range(starts[unit], starts[unit + 1]):
            if last_unit[items[pair]] != unit:
                last_unit[items[pair]] = unit
                distinct += 1
        if distinct >= weights.size:
            return False
        for pair in range(starts[unit], starts[unit + 1]):
            if last_unit[items[pair]] == unit:
                last_unit[items[pair]] = -1
                sums[items[pair]] += weights[distinct]
    return True


@compiled
def _gathered(
    order: NDArray[np.int64], offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and bytes of names in another order."""
    starts = np.zeros(order.size + 1, dtype=np.int64)
    for position in range(order.size):
        starts[position + 1] = starts[position] + offsets[order[position] + 1] - offsets[order[position]]
    gathered = np.empty(starts[order.size], dtype=np.uint8)
    for position in range(order.size):
        begin = offsets[order[position]]
        for byte in range(starts[position + 1] - starts[position]):
            gathered[starts[position] + byte] = data[begin + byte]
    return starts, gathered


_Columns = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]


@compiled
def _compared(left: _Columns, i: int, right: _Columns, j: int) -> int:
    """Negative if item i of ``left`` comes before item j of ``right``, 0 if it is the same, positive otherwise."""
    if left[0][i] != right[0][j]:
        return -1 if left[0][i] < right[0][j] else 1
    size, other_size = left[2][i + 1] - left[2][i], right[2][j + 1] - right[2][j]
    for byte in range(min(size, other_size)):
        first, second = left[3][left[2][i] + byte], right[3][right[2][j] + byte]
        if first != second:
            return -1 if first < second else 1
    return int(size) - int(other_size)


@compiled
def _merged(
    left: _Columns, right: _Columns
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], int]:
    """The items of both in order, with added sums; and how many there are, at the start of each array."""
    max_items = left[1].size + right[1].size
    hashes, sums = np.empty(max_items, dtype=np.uint64), np.empty(max_items, dtype=np.int64)
    offsets, data = np.zeros(max_items + 1, dtype=np.int64), np.empty(left[3].size + right[3].size, dtype=np.uint8)
    i, j, items = 0, 0, 0
    while i < left[1].size or j < right[1].size:
        order = -1 if j == right[1].size else 1 if i == left[1].size else _compared(left, i, right, j)
        source, item = (left, i) if order <= 0 else (right, j)
        hashes[items], sums[items] = source[0][item], source[1][item]
        begin, size = source[2][item], source[2][item + 1] - source[2][item]
        for byte in range(size):
            data[offsets[items] + byte] = source[3][begin + byte]
        offsets[items + 1] = offsets[items] + size
        if order == 0:
            sums[items] += right[1][j]
        i += order <= 0
        j += order >= 0
        items += 1
    return hashes, sums, offsets, data, items
