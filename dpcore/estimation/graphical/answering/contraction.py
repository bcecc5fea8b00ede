"""Tables over labelled axes: products of two of them, summed over the labels that nobody needs any more."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_SMALL_PRODUCT: Final = 1 << 10  # Multiplications below which a call of BLAS costs more than a plain loop.
_MOST_COMPARED: Final = 16


class Table(NamedTuple):
    """A table with one axis a label; sets of labels are bit masks.

    labels: Distinct non-negative integers.
    values: float64, one axis a label.
    """

    labels: tuple[int, ...]
    values: NDArray[np.float64]


class TooLargeError(Exception):
    """A table that would have more cells than allowed: raised before it is made, caught where slices are cut."""

    def __init__(self, cells: int, mask: int) -> None:
        """mask: Its labels."""
        super().__init__(f"a table of {cells} cells between answers; want fewer")
        self.cells, self.mask = cells, mask


def mask_of(labels: Iterable[int]) -> int:
    """The set of some labels."""
    mask = 0
    for label in labels:
        mask |= 1 << label
    return mask


def labels_of(mask: int) -> list[int]:
    """The labels of a set, ascending."""
    labels = []
    while mask:
        lowest = mask & -mask
        labels.append(lowest.bit_length() - 1)
        mask ^= lowest
    return labels


def combine(table: Table, others: Sequence[Table], keep: int, largest: int) -> Table:
    """The product of all tables, summed over every label of ``others`` that is not in ``keep``.

    table: Its labels are in ``keep`` or in one of the others.
    largest: Cells that a table between or the result may have.

    The next table to enter is the one that leaves the fewest cells, where there are few to compare.

    Raises TooLargeError.
    """
    waiting = [(mask_of(other.labels), other) for other in others]
    while waiting:
        once, twice = 0, 0  # Labels of at least one, and of at least two, that still wait.
        for mask, _ in waiting:
            once, twice = once | mask, twice | once & mask
        first = 0
        if 1 < len(waiting) <= _MOST_COMPARED:
            left = [_cells_left(table, other, keep | twice | once & ~mask) for mask, other in waiting]
            first = left.index(min(left))
        mask, other = waiting.pop(first)
        table = contract(table, other, keep | twice | once & ~mask, largest)
    return table


def absorbed(tables: Sequence[Table]) -> list[Table]:
    """The same product of fewer tables: one is multiplied into another that has all of its labels."""
    left: list[tuple[int, Table]] = []
    for table in sorted(tables, key=lambda table: -len(table.labels)):
        mask = mask_of(table.labels)
        for place, (other, larger) in enumerate(left):
            if not mask & ~other:
                left[place] = (other, contract(larger, table, other, larger.values.size))
                break
        else:
            left.append((mask, table))
    return [table for _, table in left]


def contract(left: Table, right: Table, keep: int, largest: int) -> Table:
    """The product of two tables, summed over the labels that both have and ``keep`` has not.

    The axes of the result are the shared ones, then those of the left alone, then those of the right alone.

    Raises TooLargeError for a result of more than ``largest`` cells.
    """
    both = mask_of(left.labels) & mask_of(right.labels)
    shared, summed = both & keep, both & ~keep
    batch = [label for label in left.labels if shared >> label & 1]
    inner = [label for label in left.labels if summed >> label & 1]
    rows = [label for label in left.labels if not both >> label & 1]
    columns = [label for label in right.labels if not both >> label & 1]
    if not (inner or columns):
        axes = zip(left.labels, left.values.shape, strict=True)
        spread = arranged(right, batch).reshape([size if shared >> label & 1 else 1 for label, size in axes])
        return Table(left.labels, left.values * spread)
    first, second = arranged(left, [*batch, *rows, *inner]), arranged(right, [*batch, *inner, *columns])
    many, split = len(batch), len(batch) + len(rows)
    sizes = (*first.shape[:split], *second.shape[many + len(inner) :])
    cells = math.prod(sizes)
    if cells > largest:
        raise TooLargeError(cells, mask_of((*batch, *rows, *columns)))
    items, contracted = math.prod(sizes[:many]), math.prod(first.shape[split:])
    height = math.prod(sizes[many:split])
    product = _product(
        first.reshape(items, height, contracted),
        second.reshape(items, contracted, cells // (items * height)),
    )
    return Table((*batch, *rows, *columns), product.reshape(sizes))


def arranged(table: Table, order: Sequence[int]) -> NDArray[np.float64]:
    """The values with their axes in another order of the labels: a view."""
    if tuple(order) == table.labels:
        return table.values
    return table.values.transpose([table.labels.index(label) for label in order])


def _cells_left(table: Table, other: Table, keep: int) -> int:
    """Cells of the product of two tables, summed over the labels that both have and ``keep`` has not."""
    cells = table.values.size
    for label, size in zip(other.labels, other.values.shape, strict=True):
        if label not in table.labels:
            cells *= size
        elif not keep >> label & 1:
            cells //= size
    return cells


def _product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """[items, rows, inner] times [items, inner, columns], item by item."""
    items, rows, inner = left.shape
    columns = right.shape[2]
    if items == 1 or rows * inner * columns >= _SMALL_PRODUCT:
        return np.asarray(left @ right)
    result = np.empty((items, rows, columns))
    _many_products(np.ascontiguousarray(left), np.ascontiguousarray(right), result)
    return result


@compiled
def _many_products(left: NDArray[np.float64], right: NDArray[np.float64], result: NDArray[np.float64]) -> None:
    items, rows, inner = left.shape
    columns = right.shape[2]
    for item in range(items):
        for row in range(rows):
            if columns == 1:
                total = 0.0
                for place in range(inner):
                    total += left[item, row, place] * right[item, place, 0]
                result[item, row, 0] = total
                continue
            value = left[item, row, 0]
            for column in range(columns):
                result[item, row, column] = value * right[item, 0, column]
            for place in range(1, inner):
                value = left[item, row, place]
                for column in range(columns):
                    result[item, row, column] += value * right[item, place, column]


@final
class TableCache:
    """Tables by key; those that were not used for longest go when together they pass a limit.

    largest: Bytes that the tables may have together. A table of more than a quarter of it is never kept.
    """

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.bytes = 0
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def get(self, key: Hashable) -> Table | None:
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def keep(self, key: Hashable, table: Table) -> None:
        """A new key's table."""
        if 4 * table.values.nbytes > self.largest:
            return
        self._tables[key] = table
        self.bytes += table.values.nbytes
        while self.bytes > self.largest:
            self.bytes -= self._tables.popitem(last=False)[1].values.nbytes
