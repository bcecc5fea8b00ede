"""Where the cells of a clique lie in the table of a larger one: planned strides for compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain

_MIDDLE = 1 << 12


class Parts(NamedTuple):
    """Plans of many (table, part) pairs, as arrays that compiled loops can read; one entry a pair.

    A table is read in runs: consecutive cells whose part cell moves by one constant stride, 0 where the run is summed
    out. The part cell of the first cell of run (o, m) is offsets[outer + o] + offsets[middle + m].

    table, part: Where the table and the part begin in their flat vectors.
    size: Cells of the part.
    """

    table: NDArray[np.int64]
    part: NDArray[np.int64]
    size: NDArray[np.int64]
    outer: NDArray[np.int64]
    outer_length: NDArray[np.int64]
    middle: NDArray[np.int64]
    middle_length: NDArray[np.int64]
    run: NDArray[np.int64]
    stride: NDArray[np.int64]
    offsets: NDArray[np.int64]


def parts(domain: Domain, pairs: Sequence[tuple[Clique, int, Clique, int]]) -> Parts:
    """The plans of (table clique, its begin, part clique, its begin); a part lies inside its table.

    Tables and parts are raveled in C order of their own attributes.
    """
    rows: list[tuple[int, ...]] = []
    offsets: list[NDArray[np.int64]] = []
    length = 0
    for table, table_begin, part, part_begin in pairs:
        groups = _merged(domain, table, part)
        run, stride = groups[-1]
        outer, middle = _split(groups[:-1])
        row = (table_begin, part_begin, domain.size(part), length, outer.size)
        rows.append((*row, length + outer.size, middle.size, run, stride))
        offsets += [outer, middle]
        length += outer.size + middle.size
    columns = list(np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(len(rows), 9).T))
    joined = np.concatenate(offsets) if offsets else np.zeros(0, dtype=np.int64)
    return Parts(*[*columns, joined])


def _merged(domain: Domain, table: Clique, part: Clique) -> list[tuple[int, int]]:
    """(size, stride in the part) of the table's axes, neighbours joined where one stride walks through both."""
    strides = dict.fromkeys(table, 0)
    step = 1
    for name in reversed(part):
        strides[name] = step
        step *= domain.shape((name,))[0]
    groups = [(1, 0)]
    for name, size in zip(table, domain.shape(table), strict=True):
        before, stride = groups[-1]
        if size == 1:
            continue
        if before == 1 or stride == strides[name] * size:
            groups[-1] = (before * size, strides[name])
        else:
            groups.append((size, strides[name]))
    return groups


def _split(groups: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of the leading groups as an outer and a middle part, whose sums are all of them."""
    split, cells = len(groups), 1
    while split > 0 and cells * groups[split - 1][0] <= _MIDDLE:
        split -= 1
        cells *= groups[split][0]
    return _sums(groups[:split]), _sums(groups[split:])


def _sums(groups: list[tuple[int, int]]) -> NDArray[np.int64]:
    offsets = np.zeros(1, dtype=np.int64)
    for size, stride in groups:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


@compiled
def add_part(plan: Parts, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Adds a part's values to every cell of its table that lies above them."""
    run, stride = plan.run[index], plan.stride[index]
    cell = plan.table[index]
    for outer in range(plan.outer_length[index]):
        begin = plan.part[index] + plan.offsets[plan.outer[index] + outer]
        for middle in range(plan.middle_length[index]):
            source = begin + plan.offsets[plan.middle[index] + middle]
            cells = tables[cell : cell + run]  # Slices, whose indices a compiler knows to be in range.
            if stride == 0:
                value = values[source]
                for place in range(run):
                    cells[place] += value
            elif stride == 1:
                below = values[source : source + run]
                for place in range(run):
                    cells[place] += below[place]
            else:
                for place in range(run):
                    cells[place] += values[source + place * stride]
            cell += run


@compiled
def sum_part(plan: Parts, index: int, tables: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Sets a part to the sums of its table over the attributes that it lacks."""
    run, stride = plan.run[index], plan.stride[index]
    cell = plan.table[index]
    values[plan.part[index] : plan.part[index] + plan.size[index]] = 0.0
    for outer in range(plan.outer_length[index]):
        begin = plan.part[index] + plan.offsets[plan.outer[index] + outer]
        for middle in range(plan.middle_length[index]):
            target = begin + plan.offsets[plan.middle[index] + middle]
            if stride == 0:
                values[target] += row_sum(tables, cell, run)
            elif stride == 1:
                cells, below = tables[cell : cell + run], values[target : target + run]
                for place in range(run):
                    below[place] += cells[place]
            else:
                cells = tables[cell : cell + run]
                for place in range(run):
                    values[target + place * stride] += cells[place]
            cell += run


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
