"""Rows from the tables of a junction tree: each node draws its residual given the codes of its separator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.pgm.integer_tables import Counts
from dpcore.estimation.pgm.junction_tree import JunctionTree


def sampled_codes(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Independent rows, int32 [units, attributes]; a cell of probability 0 is never drawn."""
    codes = np.zeros((units, len(tree.domain.names)), dtype=np.int32)
    for node, separator, chances in zip(tree.nodes, tree.separators, conditionals, strict=True):
        _sample(np.cumsum(chances, axis=1), codes, *_plan(tree.domain, node, separator), generator)
    return codes


def dealt_codes(
    tree: JunctionTree, tables: tuple[Counts, ...], units: int, block: int, generator: np.random.Generator
) -> Iterator[NDArray[np.int32]]:
    """Rows whose counts are exactly ``tables``, in random order, int32 [block or fewer, attributes] at a time.

    tables: Of ``round_model`` for ``units`` rows; neighbours agree on their separators.

    Each value of a separator has an urn of residuals, from which its rows draw without replacement: given the counts,
    attributes of different nodes are tied through their separators alone. Memory holds the urns and one block.
    """
    plans = [_plan(tree.domain, *pair) for pair in zip(tree.nodes, tree.separators, strict=True)]
    left = [table.sum(axis=1) for table in tables]
    waiting, urns = list(tables)[::-1], list[Counts]()
    del tables
    while waiting:
        urns.append(_urns(waiting.pop()))  # Tables that nobody else holds go one by one.
    for start in range(0, max(1, units), block):
        codes = np.zeros((min(block, units - start), len(tree.domain.names)), dtype=np.int32)
        for urn, remaining, plan in zip(urns, left, plans, strict=True):
            _deal(urn, remaining, codes, *plan, generator)
        yield codes


Plan = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


def _plan(domain: Domain, node: Clique, separator: Clique) -> Plan:
    """Columns and strides of the separator, columns of the residual, and its codes, int32 [cells, attributes]."""
    residual = node[len(separator) :]
    shape = domain.shape(separator)
    strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)
    cells = np.stack(np.unravel_index(np.arange(domain.size(residual)), domain.shape(residual)), axis=1)
    given, own = (np.array(domain.axes(clique), dtype=np.int64) for clique in (separator, residual))
    return given, strides, own, cells.astype(np.int32)


@compiled
def _row(codes: NDArray[np.int32], unit: int, given: NDArray[np.int64], strides: NDArray[np.int64]) -> int:
    """Cell of the separator."""
    row = 0
    for axis in range(given.size):
        row += codes[unit, given[axis]] * strides[axis]
    return row


@compiled
def _sample(
    cumulative: NDArray[np.float64],
    codes: NDArray[np.int32],
    given: NDArray[np.int64],
    strides: NDArray[np.int64],
    own: NDArray[np.int64],
    cells: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    """The first cell whose cumulative chance is above a uniform number: never one of chance 0."""
    for unit in range(codes.shape[0]):
        chances = cumulative[_row(codes, unit, given, strides)]
        mark = min(generator.random() * chances[-1], np.nextafter(chances[-1], 0.0))
        cell = np.searchsorted(chances, mark, side="right")
        for axis in range(own.size):
            codes[unit, own[axis]] = cells[cell, axis]


@compiled
def _urns(table: Counts) -> Counts:
    """Counts of each row for draws by bisection: entry [i, m] is the sum of the left half of the one range split at m.

    The range of all cells is split at its middle, and so are its halves, down to single cells: every m >= 1 once.
    """
    urns = np.zeros_like(table)
    before = np.zeros(table.shape[1] + 1, dtype=np.int64)
    stack = np.zeros((128, 2), dtype=np.int64)
    for i in range(table.shape[0]):
        before[1:] = np.cumsum(table[i])
        stack[0, 0], stack[0, 1] = 0, table.shape[1]
        depth = 1
        while depth > 0:
            depth -= 1
            low, high = stack[depth]
            if high - low > 1:
                middle = (low + high) // 2
                urns[i, middle] = before[middle] - before[low]
                stack[depth, 0], stack[depth, 1] = low, middle
                stack[depth + 1, 0], stack[depth + 1, 1] = middle, high
                depth += 2
    return urns


@compiled
def _deal(
    urns: Counts,
    remaining: NDArray[np.int64],
    codes: NDArray[np.int32],
    given: NDArray[np.int64],
    strides: NDArray[np.int64],
    own: NDArray[np.int64],
    cells: NDArray[np.int32],
    generator: np.random.Generator,
) -> None:
    """Every unit takes one of what remains in the urn of its separator's value, each with the same chance."""
    for unit in range(codes.shape[0]):
        row = _row(codes, unit, given, strides)
        ticket = min(int(generator.random() * remaining[row]), remaining[row] - 1)
        remaining[row] -= 1
        low, high = 0, urns.shape[1]
        while high - low > 1:
            middle = (low + high) // 2
            left = urns[row, middle]
            if ticket < left:
                urns[row, middle] = left - 1
                high = middle
            else:
                ticket -= left
                low = middle
        for axis in range(own.size):
            codes[unit, own[axis]] = cells[low, axis]
