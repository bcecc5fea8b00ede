"""Baskets of given sizes and item counts, in classes: the counts, and how baskets are dealt from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.model import BasketRows
from dpcore.estimation.row_partitions import half_of_counts

_PASSES: Final = 16  # Trades of each unit of a class; pair counts are those of the uniform law after eight or so.


@final
@dataclass(frozen=True, eq=False)
class RoundedBaskets:
    """How many units have each class and size, and how many units of each class hold each item.

    Implements ``RoundedRows``. The sizes of the units of a class sum to its item counts.

    sizes: int32 [cells], the basket size of each cell; ``classes``: int32 [cells], its class, from 0.
    units_of_cell: int32 [cells], the number of units of each cell.
    holders: int32 [classes, items], the number of units of each class that hold each item.
    """

    sizes: NDArray[np.int32]
    classes: NDArray[np.int32]
    units_of_cell: NDArray[np.int32]
    holders: NDArray[np.int32]

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.units_of_cell.sum(dtype=np.int64))

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> RoundedBaskets:
        """The counts of the first ``units`` units, or of the others: cells first, and then the items of each class."""
        half = half_of_counts(self.units_of_cell[None, :], np.array([units]), generator, first=True)[0]
        cells = half if first else self.units_of_cell - half
        return RoundedBaskets(
            self.sizes,
            self.classes,
            cells,
            half_of_counts(self.holders, self._pairs_of_classes(half), generator, first=first),
        )

    def _pairs_of_classes(self, units_of_cell: NDArray[np.int32]) -> NDArray[np.int64]:
        """The sum of basket sizes in each class, int64 [classes]."""
        pairs = np.zeros(len(self.holders), dtype=np.int64)
        np.add.at(pairs, self.classes, units_of_cell.astype(np.int64) * self.sizes)
        return pairs

    def rows(self, generator: np.random.Generator) -> BasketRows:
        """Baskets with these counts, in random order.

        Within a class, every 0/1 matrix with the given sizes and item counts is about equally likely: the law of
        independent items with logits that are a sum of a term for the unit and a term for the item, given all sums.
        """
        items = self.holders.shape[1]
        sizes = np.repeat(self.sizes, self.units_of_cell)
        classes = np.repeat(self.classes, self.units_of_cell)
        by_class = np.argsort(classes, kind="stable")
        class_starts = np.searchsorted(classes[by_class], np.arange(len(self.holders) + 1))
        class_sizes = sizes[by_class].astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(class_sizes)])
        dealt = np.full(int(offsets[-1]), -1, dtype=np.int32)
        for number, holders in enumerate(self.holders):
            first, stop = int(class_starts[number]), int(class_starts[number + 1])
            if first < stop:
                common = np.argsort(-holders, kind="stable")[: int(np.count_nonzero(holders))]
                bounds = offsets[first : stop + 1]
                _deal(common.astype(np.int32), holders[common], bounds, dealt, generator)
                _trade(bounds, dealt, items, _PASSES, generator)
        return _in_random_order(offsets, dealt, generator)


def _in_random_order(
    offsets: NDArray[np.int64], dealt: NDArray[np.int32], generator: np.random.Generator
) -> BasketRows:
    """Baskets in random order, and the items of each one in ascending order."""
    units = len(offsets) - 1
    unit = np.repeat(generator.permutation(units).astype(np.int32), np.diff(offsets))
    filled = dealt >= 0
    unit, item = unit[filled], dealt[filled]
    order = np.lexsort((item, unit))
    return BasketRows(units, unit[order], item[order])


@compiled
def _deal(
    items: NDArray[np.int32],
    holders: NDArray[np.int32],
    offsets: NDArray[np.int64],
    dealt: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    """Gives each item to the units with the most free places; where it can be done, all sums are met.

    items: int32 [items], with the most holders first. holders: int32 [items], their numbers of holders.
    offsets: int64 [units + 1], the places of each unit in ``dealt``; free ones are -1.

    Among units with equally many free places, the choice is random. An item with more holders than there are units with
    free places gets all of these.

    Source: Gale (1957) and Ryser (1957); Havel and Hakimi's construction.
    """
    units = len(offsets) - 1
    free = np.empty(units, dtype=np.int64)
    for unit in range(units):
        free[unit] = offsets[unit + 1] - offsets[unit]
    order = np.argsort(-free)  # Units, those with the most free places first; stays sorted.
    for index in range(len(items)):
        low, high = 0, units
        while low < high:
            middle = (low + high) // 2
            if free[order[middle]] > 0:
                low = middle + 1
            else:
                high = middle
        # The first units with free places, at most as many as the item has holders.
        wanted = int(holders[index]) if holders[index] < low else low
        if wanted == 0:
            continue
        level = free[order[wanted - 1]]
        start, stop = _equal_range(free, order, level)
        chosen = wanted - start  # Of the units with equally many free places, a random part comes last.
        for taken in range(chosen):
            last = stop - 1 - taken
            swapped = start + int(generator.random() * (last - start + 1))
            order[last], order[swapped] = order[swapped], order[last]
        for position in range(wanted):
            unit = order[position] if position < start else order[stop - 1 - (position - start)]
            dealt[offsets[unit + 1] - free[unit]] = items[index]
            free[unit] -= 1


@compiled
def _equal_range(free: NDArray[np.int64], order: NDArray[np.int64], level: int) -> tuple[int, int]:
    """The range of ``order`` whose units have ``level`` free places."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if free[order[middle]] > level:
            low = middle + 1
        else:
            high = middle
    start, high = low, len(order)
    while low < high:
        middle = (low + high) // 2
        if free[order[middle]] >= level:
            low = middle + 1
        else:
            high = middle
    return start, low


@compiled
def _trade(
    offsets: NDArray[np.int64], dealt: NDArray[np.int32], items: int, passes: int, generator: np.random.Generator
) -> None:
    """Random trades between pairs of units: what only one of two units holds is dealt anew, and sizes are kept.

    Source: Strona et al. (2014), the curveball algorithm; its stationary law is uniform (Carstens 2015).
    """
    units = len(offsets) - 1
    order = np.arange(units)
    held = np.zeros(items, dtype=np.int8)
    pool = np.empty(2 * max(1, int((offsets[1:] - offsets[:-1]).max())), dtype=np.int32)
    for _ in range(passes):
        for unit in range(units - 1, 0, -1):
            swapped = int(generator.random() * (unit + 1))
            order[unit], order[swapped] = order[swapped], order[unit]
        for pair in range(units // 2):
            _trade_pair(offsets, dealt, order[2 * pair], order[2 * pair + 1], held, pool, generator)


@compiled
def _trade_pair(
    offsets: NDArray[np.int64],
    dealt: NDArray[np.int32],
    first: int,
    second: int,
    held: NDArray[np.int8],
    pool: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    a, a_stop = offsets[first], offsets[first + 1]
    b, b_stop = offsets[second], offsets[second + 1]
    for index in range(a, a_stop):
        if dealt[index] >= 0:
            held[dealt[index]] += 1
    for index in range(b, b_stop):
        if dealt[index] >= 0:
            held[dealt[index]] += 2
    count, own = 0, 0  # Items that one of the two holds alone, those of the first unit in front.
    for index in range(a, a_stop):
        if dealt[index] >= 0 and held[dealt[index]] == 1:
            pool[count] = dealt[index]
            count += 1
    own = count
    for index in range(b, b_stop):
        if dealt[index] >= 0 and held[dealt[index]] == 2:
            pool[count] = dealt[index]
            count += 1
    if own > 0 and own < count:
        for index in range(own):  # A random set of ``own`` items comes in front.
            swapped = index + int(generator.random() * (count - index))
            pool[index], pool[swapped] = pool[swapped], pool[index]
    taken = 0
    for index in range(a, a_stop):
        item = dealt[index]
        if item >= 0 and held[item] == 1:
            dealt[index] = pool[taken]
            taken += 1
    for index in range(b, b_stop):
        item = dealt[index]
        if item >= 0 and held[item] == 2:
            dealt[index] = pool[taken]
            taken += 1
    for index in range(count):
        held[pool[index]] = 0
    for index in range(a, a_stop):
        if dealt[index] >= 0:
            held[dealt[index]] = 0
