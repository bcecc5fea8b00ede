"""Contraction of tables over labelled axes: products, summed over the labels that are no longer needed.

Sets of labels are bit masks.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

_SMALL_PRODUCT: Final = 1 << 10  # Multiplications below which a call of BLAS costs more than a plain loop.
_MAX_COMPARED: Final = 16  # Number of tables up to which all are compared for the next contraction.


class Table(NamedTuple):
    """A table with one axis for each label.

    labels: Distinct non-negative integers.
    values: float64, axes in the order of the labels.
    """

    labels: tuple[int, ...]
    values: NDArray[np.float64]


class TooLargeError(Exception):
    """An intermediate table would be too large. It is raised before the table is made; the caller then slices it.

    cells: Number of cells that it would have.
    mask: The set of its labels.
    """

    def __init__(self, cells: int, mask: int) -> None:
        super().__init__(f"an intermediate table of {cells} cells; want slices of fewer")
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


def contract_all(table: Table, others: Sequence[Table], keep: int, max_cells: int) -> Table:
    """The product of all tables, summed over every label of ``others`` that is not in ``keep``.

    table: A table whose labels are in ``keep`` or in one of the others.
    others: The other tables, contracted one by one; if they are few, the one that leaves the fewest cells comes first.
    keep: Labels of the result, as a mask.
    max_cells: The largest number of cells that an intermediate table or the result may have.

    Raises: TooLargeError for a larger table.
    """
    waiting = [(mask_of(factor.labels), factor) for factor in others]
    while waiting:
        once, twice = 0, 0  # Labels of at least one, and of at least two, waiting tables.
        for mask, _ in waiting:
            once, twice = once | mask, twice | once & mask
        next_index = 0
        if 1 < len(waiting) <= _MAX_COMPARED:
            cells = [_product_cells(table, factor, keep | twice | once & ~mask) for mask, factor in waiting]
            next_index = cells.index(min(cells))
        mask, factor = waiting.pop(next_index)
        table = contract(table, factor, keep | twice | once & ~mask, max_cells)
    return table


def absorb_subsets(tables: Sequence[Table]) -> list[Table]:
    """Fewer tables with the same product: a table is multiplied into another one that has all of its labels."""
    absorbing: list[tuple[int, Table]] = []
    for table in sorted(tables, key=lambda table: -len(table.labels)):
        mask = mask_of(table.labels)
        for index, (larger_mask, larger) in enumerate(absorbing):
            if not mask & ~larger_mask:
                absorbing[index] = (larger_mask, contract(larger, table, larger_mask, larger.values.size))
                break
        else:
            absorbing.append((mask, table))
    return [table for _, table in absorbing]


def contract(left: Table, right: Table, keep: int, max_cells: int) -> Table:
    """The product of two tables, summed over the labels that both have and ``keep`` lacks.

    The axes of the result are the shared ones, then those of the left table only, then those of the right table only.

    Raises: TooLargeError for a result of more than ``max_cells`` cells.
    """
    both = mask_of(left.labels) & mask_of(right.labels)
    shared, summed = both & keep, both & ~keep
    batch = [label for label in left.labels if shared >> label & 1]
    inner = [label for label in left.labels if summed >> label & 1]
    rows = [label for label in left.labels if not both >> label & 1]
    columns = [label for label in right.labels if not both >> label & 1]
    if not (inner or columns):
        axes = zip(left.labels, left.values.shape, strict=True)
        broadcast = transpose_to(right, batch).reshape([size if shared >> label & 1 else 1 for label, size in axes])
        return Table(left.labels, left.values * broadcast)
    first, second = transpose_to(left, [*batch, *rows, *inner]), transpose_to(right, [*batch, *inner, *columns])
    batch_end, rows_end = len(batch), len(batch) + len(rows)
    sizes = (*first.shape[:rows_end], *second.shape[batch_end + len(inner) :])
    cells = math.prod(sizes)
    if cells > max_cells:
        raise TooLargeError(cells, mask_of((*batch, *rows, *columns)))
    items, contracted = math.prod(sizes[:batch_end]), math.prod(first.shape[rows_end:])
    height = math.prod(sizes[batch_end:rows_end])
    product = _product(
        first.reshape(items, height, contracted),
        second.reshape(items, contracted, cells // (items * height)),
    )
    return Table((*batch, *rows, *columns), product.reshape(sizes))


def transpose_to(table: Table, order: Sequence[int]) -> NDArray[np.float64]:
    """A view of the values with the axes in the given order of the labels."""
    if tuple(order) == table.labels:
        return table.values
    return table.values.transpose([table.labels.index(label) for label in order])


def joint_table(
    tree: JunctionTree,
    node: int,
    conditional: NDArray[np.float64],
    separator_marginal: NDArray[np.float64] | None,
) -> Table:
    """The joint table of a node, with the positions of its attributes as labels, ascending.

    tree, node: The node by its position in the tree.
    conditional: p(residual | separator), float64 [cells of the separator, cells of the residual].
    separator_marginal: Probabilities of the separator's cells, in the order of the separator; None for a root.

    Raises: ValueError for a conditional of another shape.
    """
    domain, names = tree.domain, tree.nodes[node]
    cells = domain.size(tree.separators[node])
    if conditional.shape != (cells, domain.size(names) // cells):
        raise ValueError(
            f"conditional of node {node} has shape {conditional.shape}; want [cells of separator, of residual]"
        )
    labels = domain.axes(names)
    order = sorted(range(len(labels)), key=labels.__getitem__)
    joint = conditional if separator_marginal is None else separator_marginal.reshape(-1, 1) * conditional
    shaped = joint.reshape(domain.shape(names)).transpose(order)
    return Table(tuple(sorted(labels)), np.ascontiguousarray(shaped))


def _product_cells(table: Table, factor: Table, keep: int) -> int:
    """Number of cells of the result of ``contract``."""
    cells = table.values.size
    for label, size in zip(factor.labels, factor.values.shape, strict=True):
        if label not in table.labels:
            cells *= size
        elif not keep >> label & 1:
            cells //= size
    return cells


def _product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix products [items, rows, inner] times [items, inner, columns], item by item."""
    items, rows, inner = left.shape
    columns = right.shape[2]
    if items == 1 or rows * inner * columns >= _SMALL_PRODUCT:
        return np.asarray(left @ right)
    result = np.empty((items, rows, columns))
    _many_products(np.ascontiguousarray(left), np.ascontiguousarray(right), result)
    return result


@compiled
def _many_products(left: NDArray[np.float64], right: NDArray[np.float64], result: NDArray[np.float64]) -> None:
    """Sets ``result`` to the products of ``_product``."""
    items, rows, inner = left.shape
    columns = right.shape[2]
    for item in range(items):
        for row in range(rows):
            if columns == 1:
                total = 0.0
                for k in range(inner):
                    total += left[item, row, k] * right[item, k, 0]
                result[item, row, 0] = total
                continue
            value = left[item, row, 0]
            for column in range(columns):
                result[item, row, column] = value * right[item, 0, column]
            for k in range(1, inner):
                value = left[item, row, k]
                for column in range(columns):
                    result[item, row, column] += value * right[item, k, column]


@final
class TableCache:
    """Tables by key; the least recently used ones are evicted when all tables together exceed a limit.

    max_bytes: Largest size of all tables together, in bytes. A table above a quarter of this size is never kept.
    bytes: Size of the kept tables, in bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def get(self, key: Hashable) -> Table | None:
        """The table of a key; None if it is not kept."""
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: Hashable, table: Table) -> None:
        """Keeps the table of a new key, if it is not too large."""
        if 4 * table.values.nbytes > self.max_bytes:
            return
        self._tables[key] = table
        self.bytes += table.values.nbytes
        while self.bytes > self.max_bytes:
            self.bytes -= self._tables.popitem(last=False)[1].values.nbytes
