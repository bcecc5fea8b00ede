"""Where the cells of a clique lie in the table of a larger one: planned strides for compiled loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain

_BLOCK: Final = 1 << 12  # Cells: a block, and what is added to it, stay in the cache next to the processor.


class StridePlans(NamedTuple):
    """Plans of many (table, part) pairs, as arrays that compiled loops can read; one entry a pair.

    A table is read in blocks, which depend on the table alone, and a block in runs: consecutive cells whose part cell
    moves by one constant stride, 0 where the run is summed out. The part cell of the first cell of run m of block o
    is offsets[outer + o] + offsets[middle + m].

    table, part: Where the table and the part begin in their flat vectors.
    size: Cells of the part.
    block: Cells of a block.
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
    """The plans of (table clique, its begin, part clique, its begin); a part lies inside its table.

    Tables and parts are raveled in C order of their own attributes.
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
    """Cells of a block of a table: all of its last axes that fit, and the last one in any case."""
    return math.prod(shape[_block_axes(shape) :])


def _block_axes(shape: Sequence[int]) -> int:
    """The first axis inside a block."""
    first, cells = len(shape), 1
    while first > 0 and (cells == 1 or cells * shape[first - 1] <= _BLOCK):
        first -= 1
        cells *= shape[first]
    return first


def _merged(axes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(size, stride in the part) of axes of a table, neighbours joined where one stride walks through both."""
    groups = [(1, 0)]
    for size, stride in axes:
        before, wider = groups[-1]
        if size == 1:
            continue
        if before == 1 or wider == stride * size:
            groups[-1] = (before * size, stride)
        else:
            groups.append((size, stride))
    return groups


def _sums(groups: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    offsets = np.zeros(1, dtype=np.int64)
    for size, stride in groups:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


@compiled
def add_part(plan: StridePlans, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Adds a part's values to every cell of its table that lies above them."""
    begin, cells = plan.table[index], plan.block[index]
    for block in range(plan.outer_length[index]):
        add_block(plan, index, block, tables[begin + block * cells : begin + (block + 1) * cells], values)


@compiled
def add_block(
    plan: StridePlans, index: int, block: int, cells: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    """Adds a part's values to one block of its table."""
    run, stride = plan.run[index], plan.stride[index]
    begin = plan.part[index] + plan.offsets[plan.outer[index] + block]
    middles = plan.offsets[plan.middle[index] : plan.middle[index] + plan.middle_length[index]]
    for middle in range(middles.size):
        source = begin + middles[middle]
        above = cells[middle * run : (middle + 1) * run]  # Slices, whose indices a compiler knows to be in range.
        if stride == 0:
            value = values[source]
            for place in range(run):
                above[place] += value
        elif stride == 1:
            below = values[source : source + run]
            for place in range(run):
                above[place] += below[place]
        else:
            for place in range(run):
                above[place] += values[source + place * stride]


@compiled
def sum_part(plan: StridePlans, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Sets a part to the sums of its table over the attributes that it lacks."""
    begin, cells = plan.table[index], plan.block[index]
    clear_part(plan, index, values)
    for block in range(plan.outer_length[index]):
        sum_block(plan, index, block, tables[begin + block * cells : begin + (block + 1) * cells], values)


@compiled
def clear_part(plan: StridePlans, index: int, values: NDArray[np.float64]) -> None:
    """Sets a part to 0."""
    part = values[plan.part[index] : plan.part[index] + plan.size[index]]
    for place in range(part.size):
        part[place] = 0.0


@compiled
def sum_block(
    plan: StridePlans, index: int, block: int, cells: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    """Adds the cells of one block of a table to the part's values below them."""
    run, stride = plan.run[index], plan.stride[index]
    begin = plan.part[index] + plan.offsets[plan.outer[index] + block]
    middles = plan.offsets[plan.middle[index] : plan.middle[index] + plan.middle_length[index]]
    for middle in range(middles.size):
        target = begin + middles[middle]
        if stride == 0:
            values[target] += row_sum(cells, middle * run, run)
            continue
        above = cells[middle * run : (middle + 1) * run]
        if stride == 1:
            below = values[target : target + run]
            for place in range(run):
                below[place] += above[place]
        else:
            for place in range(run):
                values[target + place * stride] += above[place]


@compiled
def row_sum(values: NDArray[np.float64], begin: int, length: int) -> float:
    """Sum of a run, in four interleaved sums that a processor adds side by side."""
    cells = values[begin : begin + length]
    whole = length - length % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for place in range(0, whole, 4):
        a += cells[place]
        b += cells[place + 1]
        c += cells[place + 2]
        d += cells[place + 3]
    for place in range(whole, length):
        a += cells[place]
    return (a + b) + (c + d)
