"""Synthetic rows from a junction tree: the residual of each node is drawn given the codes of its separator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.sampling.cell_offsets import Offsets, cell_offsets
from dpcore.estimation.graphical.sampling.integer_tables import conditional_table
from dpcore.estimation.graphical.sampling.rounding import Counts
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree


def sampled_codes(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Draws independent rows: codes, int32 [units, attributes]; a cell of probability 0 is never drawn.

    tree: The junction tree.
    conditionals: p(residual | separator) of each node.
    units: Number of rows, >= 0.
    generator: Algorithmic randomness.

    Memory holds the rows and the table of one node.
    """
    codes = np.zeros((units, len(tree.domain.names)), dtype=np.int32)
    for node, plan in enumerate(_plans(tree)):
        _sample(_accumulated(conditional_table(tree, conditionals, node)[0]), codes, plan, generator)
    return codes


def dealt_codes(
    tree: JunctionTree, tables: Iterable[Counts], units: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Deals rows with exactly the counts of ``tables``, in random order: codes, int32 [units, attributes].

    tree: The junction tree.
    tables: Integer tables of all nodes for ``units`` rows, such as those of ``round_model``. They are consumed one by
        one and overwritten: each is dealt before the next is requested.
    units: Number of rows, >= 0.
    generator: Algorithmic randomness.

    Each value of a separator has an urn of residuals, from which its rows draw without replacement. Given the counts,
    attributes of different nodes depend on each other only through their separators. Memory holds the rows and one
    table.
    """
    codes = np.zeros((units, len(tree.domain.names)), dtype=np.int32)
    remaining_tables = iter(tables)
    for plan in _plans(tree):
        _deal_table(next(remaining_tables), codes, plan, generator)  # No local name: the table is freed.
    return codes


def _deal_table(table: Counts, codes: NDArray[np.int32], plan: _Plan, generator: np.random.Generator) -> None:
    """Deals the residuals of one node to all rows."""
    _deal(table, _fill_urns(table), codes, plan, generator)


class _Plan(NamedTuple):
    """The columns that a node reads from a row and writes to it.

    given: Columns of the separator, int64 [attributes of the separator].
    strides: Strides of the separator's cells, int64 [attributes of the separator].
    own: Columns of the residual, int64 [attributes of the residual].
    codes: Codes of each cell of the residual.
    """

    given: NDArray[np.int64]
    strides: NDArray[np.int64]
    own: NDArray[np.int64]
    codes: Offsets


def _plans(tree: JunctionTree) -> Iterator[_Plan]:
    """The plan of each node, in the order of the tree."""
    return (_plan(tree.domain, *pair) for pair in zip(tree.nodes, tree.separators, strict=True))


def _plan(domain: Domain, node: Clique, separator: Clique) -> _Plan:
    """The plan of one node."""
    residual = node[len(separator) :]
    shape = domain.shape(separator)
    strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)
    given, own = (np.array(domain.axes(clique), dtype=np.int64) for clique in (separator, residual))
    codes = cell_offsets(domain.shape(residual), np.eye(len(residual), dtype=np.int64), np.int32)
    return _Plan(given, strides, own, codes)


@compiled
def _row(codes: NDArray[np.int32], unit: int, given: NDArray[np.int64], strides: NDArray[np.int64]) -> int:
    """The separator's cell of a row."""
    row = 0
    for axis in range(given.size):
        row += codes[unit, given[axis]] * strides[axis]
    return row


@compiled
def _accumulated(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums along each row, in place."""
    for i in range(table.shape[0]):
        for j in range(1, table.shape[1]):
            table[i, j] += table[i, j - 1]
    return table


@compiled
def _sample(
    cumulative: NDArray[np.float64], codes: NDArray[np.int32], plan: _Plan, generator: np.random.Generator
) -> None:
    """Draws the first cell whose cumulative probability exceeds a uniform number; it never has probability 0."""
    given, strides, own, (high, low) = plan
    for unit in range(codes.shape[0]):
        probabilities = cumulative[_row(codes, unit, given, strides)]
        threshold = min(generator.random() * probabilities[-1], np.nextafter(probabilities[-1], 0.0))
        above, below = 0, int(np.searchsorted(probabilities, threshold, side="right"))
        if below >= low.shape[0]:
            above, below = divmod(below, low.shape[0])
        for axis in range(own.size):  # Inline: a call would take longer than the loop.
            codes[unit, own[axis]] = high[above, axis] + low[below, axis]


@compiled
def _fill_urns(table: Counts) -> NDArray[np.int64]:
    """Turns the counts of each row into partial sums for draws by bisection, in place.

    The range of all cells is split at its middle, and its halves likewise, down to single cells. Every m >= 1 is then
    the middle of exactly one range, and entry [i, m] becomes the sum of the left half of that range.

    Returns: The sum of each row, int64 [rows].
    """
    totals = np.zeros(table.shape[0], dtype=np.int64)
    stack = np.zeros((128, 3), dtype=np.int64)  # Right halves to come, each with the sum before the range it halves.
    for i in range(table.shape[0]):
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, table.shape[1], 0
        depth, total = 1, 0
        while depth > 0:
            depth -= 1
            low, high, before = stack[depth]
            while high - low > 1:
                middle = (low + high) // 2
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = middle, high, total
                depth += 1
                high = middle
            count = table[i, low]
            table[i, low] = total - before
            total += count
        totals[i] = total
    return totals


@compiled
def _deal(
    urns: Counts,
    remaining: NDArray[np.int64],
    codes: NDArray[np.int32],
    plan: _Plan,
    generator: np.random.Generator,
) -> None:
    """Each row takes one of the residuals that remain in its urn, all with the same probability."""
    given, strides, own, (high, low) = plan
    for unit in range(codes.shape[0]):
        row = _row(codes, unit, given, strides)
        ticket = min(int(generator.random() * remaining[row]), remaining[row] - 1)
        remaining[row] -= 1
        first, end = 0, urns.shape[1]
        while end - first > 1:
            middle = (first + end) // 2
            left_sum = urns[row, middle]
            if ticket < left_sum:
                urns[row, middle] = left_sum - 1
                end = middle
            else:
                ticket -= left_sum
                first = middle
        above, below = 0, first
        if below >= low.shape[0]:
            above, below = divmod(below, low.shape[0])
        for axis in range(own.size):
            codes[unit, own[axis]] = high[above, axis] + low[below, axis]
