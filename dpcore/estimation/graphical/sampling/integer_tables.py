"""Integer tables of a graphical model: randomised rounding, with a variance far below that of sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.sampling.cell_offsets import cell_offsets
from dpcore.estimation.graphical.sampling.raking import Chances, expected_rows
from dpcore.estimation.graphical.sampling.rounding import Counts, MarginCells, round_rows
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

_HIGHEST_ORDER = 3
_WORK = 1 << 25  # Cells of the tree times margins of a node that are looked after ...
_FEWEST = 8  # ... but so many margins in any case.

_Agreed = dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]


def round_model(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
) -> Iterator[Counts]:
    """Counts of ``units`` rows in each node in turn, int32 [cells of the separator, cells of the residual].

    units: At least 0; from 2^31 on the counts are int64. Less than 2^51.

    Node by node, parents first: ``expected_rows`` gives each value of the separator, which has its count already, the
    expected counts of the residual, and ``round_rows`` rounds them to integers. So
        * the counts of a separator value sum to its count in the parent: neighbouring nodes agree exactly;
        * every count is within one of its expected count, whose mean over everything is units * p;
        * a cell of probability 0 has count 0;
        * the margins of a node stay close to the model's, however far the node is from the root.

    Memory: 9 bytes a cell of one node, and the separators of nodes to come. A table that was returned lies in 8 bytes a
    cell, in which nothing else lives: a copy takes half of that.

    Raises ValueError for a value of a separator that is drawn and has no chances below, when its node is asked for.

    Source: randomised rounding in the place of sampling is that of McKenna's thesis (2022), section 4.4.3.
    """
    root = np.array([units], dtype=np.int64), np.array([float(units)])
    agreed = {node: root for node, parent in enumerate(tree.parents) if parent < 0}
    for node in range(len(tree.nodes)):
        yield _round_node(tree, conditionals, node, agreed, generator)  # Without a name: the caller may drop it.


def _round_node(
    tree: JunctionTree,
    conditionals: Sequence[NDArray[np.float64]],
    node: int,
    agreed: _Agreed,
    generator: np.random.Generator,
) -> Counts:
    """Counts of a node.

    agreed: Counts of a node's separator and the model's: that of this node is taken, those of its children are added.
    """
    domain, names = tree.domain, tree.nodes[node]
    totals, means = agreed.pop(node)
    wanted, chances = own_chances(tree, conditionals, node)
    if ((totals > 0) & ~(wanted.sum(axis=1) > 0)).any():
        raise ValueError(f"node {names}: a value of its separator is drawn to which it gives no chance")
    wanted *= means[:, None]
    below = {child: margin(wanted, domain, names, tree.separators[child]) for child in _children(tree, node)}
    places = _places(domain, tree.separators[node], names, _margins(tree, node))
    expected = expected_rows(wanted, totals, means, chances, places)
    counts = round_rows(expected, totals, places, generator)
    for child, its_means in below.items():
        agreed[child] = (margin(counts, domain, names, tree.separators[child]), its_means)
    return counts


def own_chances(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], node: int
) -> tuple[NDArray[np.float64], Chances]:
    """p(residual | separator) as a new table, float64 [cells of the separator, cells of the residual], and where it
    stays to be read in the model when the new one has been overwritten: bit by bit the same.
    """
    domain, names, separator = tree.domain, tree.nodes[node], tree.separators[node]
    if isinstance(conditionals, Conditionals):
        attributes, values = conditionals.joints[node]
    else:
        attributes, values = names, conditionals[node].reshape(domain.shape(names))
    ordered = values.transpose([attributes.index(name) for name in names])
    fresh = np.array(ordered, order="C").reshape(domain.size(separator), -1)
    sums = np.ones(len(fresh))
    if isinstance(conditionals, Conditionals):
        sums = fresh.sum(axis=1)
        sums[~(sums > 0)] = 1.0
        fresh /= sums[:, None]
    return fresh, _chances(ordered, len(separator), sums)


def _chances(ordered: NDArray[np.float64], split: int, sums: NDArray[np.float64]) -> Chances:
    """Where the cells of a table are in memory.

    ordered: An axis an attribute, ``split`` of the separator first; any strides.
    """
    outwards = np.argsort([-stride for stride in ordered.strides], kind="stable")
    values = ordered.transpose(outwards).reshape(-1)  # No copy of a table that fills its memory.
    strides = np.zeros((ordered.ndim, 1), dtype=np.int64)
    strides[outwards, 0] = np.cumprod([1, *(ordered.shape[axis] for axis in outwards[:0:-1])])[::-1]
    rows, columns = (
        cell_offsets(shape, part, np.int64)
        for shape, part in ((ordered.shape[:split], strides[:split]), (ordered.shape[split:], strides[split:]))
    )
    return Chances(values, sums, rows, columns)


def margin(table: NDArray[Any], domain: Domain, node: Clique, clique: Clique) -> NDArray[Any]:
    """The table of a clique within a node, flat in C order of the attributes as ``clique`` lists them.

    Integers are summed, and returned, as int64.
    """
    kept = [node.index(name) for name in clique]
    others = tuple(axis for axis in range(len(node)) if axis not in kept)
    summed = table.reshape(domain.shape(node)).sum(axis=others)
    order = np.argsort(np.argsort(kept))  # Axes that are left stand in the order of the node.
    return np.ascontiguousarray(np.transpose(summed, order)).ravel()


def _margins(tree: JunctionTree, node: int) -> list[Clique]:
    """The cliques whose tables are to stay close: separators of children, then small tables inside the node.

    A table with more than a quarter of the node's cells needs no care: its cells are sums of a few. What is exact
    already, inside the node's own separator, does not count; large trees look after fewer margins, the smallest first.
    """
    names, cells = tree.nodes[node], tree.domain.size(tree.nodes[node])
    children = [tree.separators[child] for child in _children(tree, node)]
    small = chain.from_iterable(combinations(names, order) for order in range(1, min(_HIGHEST_ORDER, len(names)) + 1))
    wanted = [clique for clique in small if 4 * tree.domain.size(clique) <= cells]
    exact = frozenset(tree.separators[node])
    distinct = {frozenset(clique): clique for clique in (*children, *wanted) if not frozenset(clique) <= exact}
    return list(distinct.values())[: max(_FEWEST, _WORK // tree.cells)]


def _children(tree: JunctionTree, node: int) -> list[int]:
    return [child for child, parent in enumerate(tree.parents) if parent == node]


def _places(domain: Domain, separator: Clique, node: Clique, margins: list[Clique]) -> MarginCells:
    """Where the cells of a node count, in a table of the separator's cells times those of the residual."""
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
