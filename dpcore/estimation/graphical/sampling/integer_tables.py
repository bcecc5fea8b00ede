"""Integer tables of a graphical model by randomised rounding, with far smaller errors than by sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.sampling.cell_offsets import cell_offsets
from dpcore.estimation.graphical.sampling.raking import ConditionalView, expected_rows
from dpcore.estimation.graphical.sampling.rounding import Counts, MarginCells, round_rows
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

_HIGHEST_ORDER = 3  # Number of attributes of the largest margins that are balanced.
_WORK = 1 << 25  # Largest product of the cells of the tree and the number of balanced margins of a node.
_MIN_MARGINS = 8  # This many margins of a node are balanced in any case.

# Counts of the separator of each node: rounded, and as the model expects them.
_SeparatorCounts = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]


def round_model(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
) -> Iterator[Counts]:
    """Rounds the expected counts of each node in turn: int32 [cells of the separator, cells of the residual].

    tree: The junction tree.
    conditionals: p(residual | separator) of each node.
    units: Number of rows, >= 0 and < 2^51; from 2^31 on the counts are int64.
    generator: Algorithmic randomness.

    The nodes are rounded in order, parents first. The values of a node's separator have their counts already.
    ``expected_rows`` computes the expected counts of the residual for each of these values, and ``round_rows`` rounds
    them to integers. Hence
        * the counts of a separator value sum to its count in the parent: neighbouring nodes agree exactly;
        * every count is within one of its expected count, whose mean over all randomness is units * p;
        * a cell of probability 0 has count 0;
        * the margins of a node stay close to the model's, however far the node is from the root.

    Memory: 9 bytes for each cell of one node, and the separators of later nodes. A returned int32 table occupies half
    of a buffer of 8 bytes per cell that nothing else uses, so a copy of the table frees the other half.

    Raises: ValueError, when a node is reached, if a value of its separator was drawn that has no probabilities.

    Source: randomised rounding in place of sampling is that of McKenna's thesis (2022), section 4.4.3.
    """
    root = np.array([units], dtype=np.int64), np.array([float(units)])
    separators = {node: root for node, parent in enumerate(tree.parents) if parent < 0}
    for node in range(len(tree.nodes)):
        yield _round_node(tree, conditionals, node, separators, generator)  # No local name: the caller can free it.


def _round_node(
    tree: JunctionTree,
    conditionals: Sequence[NDArray[np.float64]],
    node: int,
    separators: _SeparatorCounts,
    generator: np.random.Generator,
) -> Counts:
    """The counts of one node.

    separators: Rounded and expected counts of separators. The entry of this node is removed, and the entries of its
        children are added.
    """
    domain, names = tree.domain, tree.nodes[node]
    totals, means = separators.pop(node)
    model_counts, conditional = conditional_table(tree, conditionals, node)
    if ((totals > 0) & ~(model_counts.sum(axis=1) > 0)).any():
        raise ValueError(f"node {names}: a drawn value of its separator has no probabilities; want rows that sum to 1")
    model_counts *= means[:, None]
    child_means = {
        child: margin(model_counts, domain, names, tree.separators[child]) for child in _children(tree, node)
    }
    margin_cells = _margin_cells(domain, tree.separators[node], names, _margins(tree, node))
    expected = expected_rows(model_counts, totals, means, conditional, margin_cells)
    counts = round_rows(expected, totals, margin_cells, generator)
    for child, expected_counts in child_means.items():
        separators[child] = (margin(counts, domain, names, tree.separators[child]), expected_counts)
    return counts


def conditional_table(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], node: int
) -> tuple[NDArray[np.float64], ConditionalView]:
    """p(residual | separator) of a node as a new table, and as a view of the model's own memory.

    Returns: float64 [cells of the separator, cells of the residual], which the caller may overwrite, and a view from
        which exactly the same numbers are computed.
    """
    domain, names, separator = tree.domain, tree.nodes[node], tree.separators[node]
    if isinstance(conditionals, Conditionals):
        attributes, values = conditionals.joints[node]
    else:
        attributes, values = names, conditionals[node].reshape(domain.shape(names))
    ordered = values.transpose([attributes.index(name) for name in names])
    table = np.array(ordered, order="C").reshape(domain.size(separator), -1)
    sums = np.ones(len(table))
    if isinstance(conditionals, Conditionals):
        sums = table.sum(axis=1)
        sums[~(sums > 0)] = 1.0
        table /= sums[:, None]
    return table, _view(ordered, len(separator), sums)


def _view(ordered: NDArray[np.float64], split: int, sums: NDArray[np.float64]) -> ConditionalView:
    """A view of a table with any layout in memory.

    ordered: The table, with one axis for each attribute, those of the separator first.
    split: Number of attributes of the separator.
    sums: Sum of each row, float64 [cells of the separator].
    """
    by_stride = np.argsort([-stride for stride in ordered.strides], kind="stable")
    values = ordered.transpose(by_stride).reshape(-1)  # This makes no copy of a contiguous table.
    strides = np.zeros((ordered.ndim, 1), dtype=np.int64)
    strides[by_stride, 0] = np.cumprod([1, *(ordered.shape[axis] for axis in by_stride[:0:-1])])[::-1]
    rows, columns = (
        cell_offsets(shape, part, np.int64)
        for shape, part in ((ordered.shape[:split], strides[:split]), (ordered.shape[split:], strides[split:]))
    )
    return ConditionalView(values, sums, rows, columns)


def margin(table: NDArray[Any], domain: Domain, node: Clique, clique: Clique) -> NDArray[Any]:
    """The margin of a node's table on a clique inside the node, flat in C order of the attributes as ``clique`` lists
    them.

    table: The table of the node, in C order of its attributes. Integers are summed and returned as int64.
    """
    kept = [node.index(name) for name in clique]
    summed_axes = tuple(axis for axis in range(len(node)) if axis not in kept)
    summed = table.reshape(domain.shape(node)).sum(axis=summed_axes)
    order = np.argsort(np.argsort(kept))  # The remaining axes are in the order of the node.
    return np.ascontiguousarray(np.transpose(summed, order)).ravel()


def _margins(tree: JunctionTree, node: int) -> list[Clique]:
    """The cliques whose margins are balanced: separators of children, then small margins inside the node.

    A margin with more than a quarter of the node's cells needs no balancing, because its cells are sums of a few cells.
    Margins inside the node's own separator are exact already. In large trees fewer margins are balanced, those of the
    fewest attributes first.
    """
    names, cells = tree.nodes[node], tree.domain.size(tree.nodes[node])
    children = [tree.separators[child] for child in _children(tree, node)]
    candidates = chain.from_iterable(
        combinations(names, order) for order in range(1, min(_HIGHEST_ORDER, len(names)) + 1)
    )
    small = [clique for clique in candidates if 4 * tree.domain.size(clique) <= cells]
    exact = frozenset(tree.separators[node])
    distinct = {frozenset(clique): clique for clique in (*children, *small) if not frozenset(clique) <= exact}
    return list(distinct.values())[: max(_MIN_MARGINS, _WORK // tree.cells)]


def _children(tree: JunctionTree, node: int) -> list[int]:
    """Positions of the children of a node."""
    return [child for child, parent in enumerate(tree.parents) if parent == node]


def _margin_cells(domain: Domain, separator: Clique, node: Clique, margins: list[Clique]) -> MarginCells:
    """The cells of the margins to which each cell of a node belongs, by cells of the separator and of the residual."""
    strides = np.zeros((len(node), len(margins)), dtype=np.int64)
    for k, clique in enumerate(margins):
        step = 1
        for name in reversed(clique):
            strides[node.index(name), k] = step
            step *= domain.size((name,))
    starts = np.cumsum([0, *(domain.size(clique) for clique in margins)])
    split = len(separator)
    rows = cell_offsets(domain.shape(separator), strides[:split], np.int32)
    rows.high[...] += starts[:-1].astype(np.int32)
    return MarginCells(rows, cell_offsets(domain.shape(node[split:]), strides[split:], np.int32), starts)
