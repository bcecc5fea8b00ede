"""Strides of the cells of a clique in the table of a larger clique, planned for compiled loops.

A *part* is a table of some of the attributes of a larger *table*. Adding a part to its table broadcasts it; summing the
table to the part is marginalisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain

_BLOCK: Final = 1 << 12  # Largest number of cells of a block, so that it stays in the first-level cache.


class StridePlans(NamedTuple):
    """Plans of many (table, part) pairs, as arrays that compiled loops can read.

    Each field but the last has one entry for each pair. A table is divided into blocks, which depend on the table
    alone, and a block into runs. A run is a sequence of consecutive cells along which the cell of the part moves by a
    constant stride; the stride is 0 if the run is summed out. The part's cell for the first cell of run m of block o is
    part + offsets[outer + o] + offsets[middle + m].

    table: Where the table begins in its flat vector.
    part: Where the part begins in its flat vector.
    size: Number of cells of the part.
    block: Number of cells of a block of the table.
    outer: Where the offsets of the blocks begin.
    outer_length: Number of blocks.
    middle: Where the offsets of the runs begin.
    middle_length: Number of runs of a block.
    run: Number of cells of a run.
    stride: Distance in the part between neighbouring cells of a run.
    offsets: Offsets in the parts, of all pairs one after another.
    """

    table: NDArray[np.int64]
    part: NDArray[np.int64]
    size: NDArray[np.int64]
    block: NDArray[np.int64]
    outer: NDArray[np.int64]
    outer_length: NDArray[np.int64]
    middle: NDArray[np.int64]
    middle_length: NDArray[np.int64]
    run: NDArray[np.int64]
    stride: NDArray[np.int64]
    offsets: NDArray[np.int64]


def stride_plans(domain: Domain, pairs: Sequence[tuple[Clique, int, Clique, int]]) -> StridePlans:
    """Plans the strides of pairs of a table and a part inside it.

    domain: Attributes and their sizes.
    pairs: (clique of the table, where the table begins, clique of the part, where the part begins). Tables and parts
        are raveled in C order of their attributes as the cliques list them.
    """
    size = dict(zip(domain.names, domain.sizes, strict=True))
    rows: list[tuple[int, ...]] = []
    offsets: list[NDArray[np.int64]] = []
    length = 0
    for table, table_begin, part, part_begin in pairs:
        strides = dict.fromkeys(table, 0)
        cells = 1
        for name in reversed(part):
            strides[name] = cells
            cells *= size[name]
        shape = [size[name] for name in table]
        axes = [(size[name], strides[name]) for name in table]
        inside = _block_axes(shape)
        *groups, (run, stride) = _merged(axes[inside:])
        outer, middle = _sums(_merged(axes[:inside])), _sums(groups)
        row = (table_begin, part_begin, cells, math.prod(shape[inside:]), length, outer.size)
        rows.append((*row, length + outer.size, middle.size, run, stride))
        offsets += [outer, middle]
        length += outer.size + middle.size
    columns = list(np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(len(rows), 10).T))
    joined = np.concatenate(offsets) if offsets else np.zeros(0, dtype=np.int64)
    return StridePlans(*[*columns, joined])


def block_cells(shape: Sequence[int]) -> int:
    """Number of cells of a block of a table: all of its last axes that fit, and at least the last one."""
    return math.prod(shape[_block_axes(shape) :])


def _block_axes(shape: Sequence[int]) -> int:
    """Index of the first axis inside a block."""
    first, cells = len(shape), 1
    while first > 0 and (cells == 1 or cells * shape[first - 1] <= _BLOCK):
        first -= 1
        cells *= shape[first]
    return first


def _merged(axes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merges neighbouring axes, given as (size, stride in the part), if one stride runs through both."""
    groups = [(1, 0)]
    for size, stride in axes:
        outer_size, outer_stride = groups[-1]
        if size == 1:
            continue
        if outer_size == 1 or outer_stride == stride * size:
            groups[-1] = (outer_size * size, stride)
        else:
            groups.append((size, stride))
    return groups


def _sums(groups: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Offsets in the part of all cells of the given (size, stride) axes, in C order."""
    offsets = np.zeros(1, dtype=np.int64)
    for size, stride in groups:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


@compiled
def add_part(plan: StridePlans, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Adds a part to its table: each value to every cell that has the same codes in the part.

    plan, index: The strides, and which pair to use.
    tables: The flat vector of the tables, changed in place.
    values: The flat vector of the parts.
    """
    begin, cells = plan.table[index], plan.block[index]
    for block in range(plan.outer_length[index]):
        add_block(plan, index, block, tables[begin + block * cells : begin + (block + 1) * cells], values)


@compiled
def add_block(
    plan: StridePlans, index: int, block: int, cells: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    """Adds a part to one block of its table, whose cells are given."""
    run, stride = plan.run[index], plan.stride[index]
    begin = plan.part[index] + plan.offsets[plan.outer[index] + block]
    run_offsets = plan.offsets[plan.middle[index] : plan.middle[index] + plan.middle_length[index]]
    for middle in range(run_offsets.size):
        source = begin + run_offsets[middle]
        table_run = cells[middle * run : (middle + 1) * run]  # The compiler knows that indices of slices are in range.
        if stride == 0:
            value = values[source]
            for cell in range(run):
                table_run[cell] += value
        elif stride == 1:
            part_run = values[source : source + run]
            for cell in range(run):
                table_run[cell] += part_run[cell]
        else:
            for cell in range(run):
                table_run[cell] += values[source + cell * stride]


@compiled
def sum_part(plan: StridePlans, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Sets a part to the sums of its table over the attributes that the part lacks."""
    begin, cells = plan.table[index], plan.block[index]
    clear_part(plan, index, values)
    for block in range(plan.outer_length[index]):
        sum_block(plan, index, block, tables[begin + block * cells : begin + (block + 1) * cells], values)


@compiled
def clear_part(plan: StridePlans, index: int, values: NDArray[np.float64]) -> None:
    """Sets a part to 0."""
    part = values[plan.part[index] : plan.part[index] + plan.size[index]]
    for cell in range(part.size):
        part[cell] = 0.0


@compiled
def sum_block(
    plan: StridePlans, index: int, block: int, cells: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    """Adds the cells of one block of a table to the part."""
    run, stride = plan.run[index], plan.stride[index]
    begin = plan.part[index] + plan.offsets[plan.outer[index] + block]
    run_offsets = plan.offsets[plan.middle[index] : plan.middle[index] + plan.middle_length[index]]
    for middle in range(run_offsets.size):
        target = begin + run_offsets[middle]
        if stride == 0:
            values[target] += row_sum(cells, middle * run, run)
            continue
        table_run = cells[middle * run : (middle + 1) * run]
        if stride == 1:
            part_run = values[target : target + run]
            for cell in range(run):
                part_run[cell] += table_run[cell]
        else:
            for cell in range(run):
                values[target + cell * stride] += table_run[cell]


@compiled
def row_sum(values: NDArray[np.float64], begin: int, length: int) -> float:
    """Sum of consecutive values, as four interleaved sums that a processor computes in parallel."""
    cells = values[begin : begin + length]
    whole = length - length % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for cell in range(0, whole, 4):
        a += cells[cell]
        b += cells[cell + 1]
        c += cells[cell + 2]
        d += cells[cell + 3]
    for cell in range(whole, length):
        a += cells[cell]
    return (a + b) + (c + d)
