"""Integer tables of a graphical model: randomised rounding, with a variance far below that of sampling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.estimation.pgm.raking import expected_rows
from dpcore.estimation.pgm.rounding import Places, round_rows

Counts = NDArray[np.int32] | NDArray[np.int64]

_HIGHEST_ORDER = 3
_WORK = 1 << 25  # Cells of the tree times margins of a node that are looked after ...
_FEWEST = 8  # ... but so many margins in any case.


def round_model(
    tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]], units: int, generator: np.random.Generator
) -> tuple[Counts, ...]:
    """Counts of ``units`` rows in each node, int32 or int64 [cells of the separator, cells of the residual].

    units: At least 0.

    Node by node, parents first: ``expected_rows`` gives each value of the separator, which has its count already, the
    expected counts of the residual, and ``round_rows`` rounds them to integers. So
        * the counts of a separator value sum to its count in the parent: neighbouring nodes agree exactly;
        * every count is within one of its expected count, whose mean over everything is units * p;
        * a cell of probability 0 has count 0;
        * the margins of a node stay close to the model's, however far the node is from the root.

    Source: randomised rounding in the place of sampling is that of McKenna's thesis (2022), section 4.4.3.
    """
    tables: list[Counts] = []
    agreed = [(np.array([units], dtype=np.int64), np.array([float(units)]))] * len(tree.nodes)
    small = units < 1 << 31
    for node in range(len(tree.nodes)):
        chances, names, (totals, means) = conditionals[node], tree.nodes[node], agreed[node]
        if ((totals > 0) & ~(chances.sum(axis=1) > 0)).any():
            raise ValueError(f"node {names}: a value of its separator is drawn to which it gives no chance")
        places = _places(tree.domain, tree.separators[node], names, _margins(tree, node))
        wanted = means[:, None] * chances
        expected = expected_rows(chances, wanted, totals, places)
        below = {child: margin(wanted, tree.domain, names, tree.separators[child]) for child in _children(tree, node)}
        del chances, wanted  # A large node's tables are as large as the model.
        counts = round_rows(expected, totals, places, generator)
        tables.append(counts.astype(np.int32) if small else counts)
        del expected, counts, places
        for child, means in below.items():
            agreed[child] = (margin(tables[node], tree.domain, names, tree.separators[child]), means)
    return tuple(tables)


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


def _places(domain: Domain, separator: Clique, node: Clique, margins: list[Clique]) -> Places:
    """Where the cells of a node count, in a table of the separator's cells times those of the residual."""
    strides = np.zeros((len(node), len(margins)), dtype=np.int64)
    for k, clique in enumerate(margins):
        step = 1
        for name in reversed(clique):
            strides[node.index(name), k] = step
            step *= domain.size((name,))
    starts = np.cumsum([0, *(domain.size(clique) for clique in margins)])
    split = len(separator)
    rows = _offsets(domain.shape(separator), strides[:split]) + starts[:-1].astype(np.int32)
    return Places(rows, _offsets(domain.shape(node[split:]), strides[split:]), starts)


def _offsets(shape: tuple[int, ...], strides: NDArray[np.int64]) -> NDArray[np.int32]:
    """Sums of codes times strides for the cells of a table in C order, int32 [cells, margins]."""
    offsets = np.zeros((1, strides.shape[1]), dtype=np.int32)
    for size, stride in zip(shape, strides.astype(np.int32), strict=True):
        codes = np.arange(size, dtype=np.int32)
        offsets = (offsets[:, None, :] + codes[None, :, None] * stride).reshape(len(offsets) * size, len(stride))
    return offsets
