"""The dual of ``maximum_entropy``, lowered clique by clique: iterative proportional fitting for noisy marginals.

Where noise is small beside the counts, a fit far from its optimum takes hundreds of quasi-Newton steps to find which
cells are large. A step along all potentials of one clique r at once, with what its marginal is now, finds it directly.
For a change d of the log-potentials on r, to which every component u inside r adds d's mean over r - u,

    f(new) - f(old) <= sum over cells of  m e^d - goal d + k d^2 / 2  + constant,
    goal = m - sum_u (component of m - y_u + kappa_u lambda_u) / n_(r - u),    k = sum_u kappa_u / n_(r - u),

with m the clique's counts now, by log(1 + t) <= t and Jensen's inequality. The right side is least, cell by cell, where
m e^d + k d = goal: no step raises f. What a table of lambda_u holds that its centring takes away costs, and goes.

Tables of nodes stay calibrated, since a message goes along every link before the node at its end is read: a sweep over
all cliques takes about as long as two or three calls of the marginal oracle.

Source: Deming and Stephan (1940) for sigma = 0, Jirousek and Preucil (1995) for the tree; the bound is derived above.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Vector = NDArray[np.float64]
_STEPS: Final = 8  # Newton steps from above on a convex function of one variable.
_LONGEST: Final = 300.0  # Of a change upwards: its exponential is finite, and part of the way is a descent as well.


class _Part(NamedTuple):
    """A component inside a clique.

    rows: Its place in the rows. shape: Of its table. over: Axes of the clique that it is a mean over.
    """

    rows: slice
    shape: tuple[int, ...]
    over: tuple[int, ...]


class _Block(NamedTuple):
    """A clique all of whose components were measured. stiffness: k."""

    clique: Clique
    parts: tuple[_Part, ...]
    stiffness: Vector


@final
class BlockDescent:
    """Sweeps over the measured cliques of a junction tree.

    rows: Those of the fit; cliques with a component that was not measured, and products, are left as they are.
    kappa: float64 [rows], the penalty's curvature along each row: strength / precision.
    """

    def __init__(self, tree: JunctionTree, rows: MeasurementMatrix, total: float, kappa: Vector) -> None:
        self._tree, self._rows, self._total, self._kappa = tree, rows, total, kappa
        self._blocks: list[list[_Block]] = [[] for _ in tree.nodes]
        for block in self._found():
            self._blocks[tree.node_of(block.clique)].append(block)
        self._tour = list(_tour(tree))

    @property
    def any(self) -> bool:
        """Whether there is any clique to sweep over."""
        return any(self._blocks)

    def swept(self, oracle: MarginalOracle, base: Vector, start: Vector, times: int) -> Vector:
        """Multipliers after so many sweeps from ``start``, float64 [rows]; f is nowhere larger than before, but
        for rounding where noise is less than a billionth of a count.
        """
        found = start.copy()
        oracle.marginals(base + self._rows.apply_transpose(found))
        tables = [_Table(*joint) for joint in oracle.take_tables()]
        for _ in range(times):
            for origin, node in self._tour:
                if origin >= 0:
                    tables[node].receive(tables[origin], self._tree.separators[max(origin, node)])
                if origin == self._tree.parents[node]:
                    for block in self._blocks[node]:
                        self._lower(block, tables[node], found)
        return found

    def _found(self) -> Iterator[_Block]:
        rows, domain = self._rows, self._tree.domain
        places = {term.clique: place for place, term in enumerate(rows.measurements) if term.centred}
        for clique in rows.queries.cliques:
            inside = [part for size in range(1, len(clique) + 1) for part in combinations(clique, size)]
            if all(part in places for part in inside):
                parts, stiffness = [], np.zeros(domain.shape(clique))
                for names in inside:
                    span = slice(int(rows.starts[places[names]]), int(rows.starts[places[names] + 1]))
                    over = tuple(axis for axis, name in enumerate(clique) if name not in names)
                    parts.append(_Part(span, domain.shape(names), over))
                    stiffness += _spread(parts[-1], self._kappa[span].reshape(parts[-1].shape), stiffness.size)
                yield _Block(clique, tuple(parts), stiffness)

    def _lower(self, block: _Block, table: _Table, found: Vector) -> None:
        """The step of one clique, in its node's table and in the multipliers ``found``."""
        counts = self._total * table.marginal(block.clique)
        goal = counts.copy()
        for part in block.parts:
            rows = part.rows
            slope = _centred(counts.sum(axis=part.over)) - self._rows.values[rows].reshape(part.shape)
            slope += (self._kappa[rows] * found[rows]).reshape(part.shape)
            goal -= _spread(part, slope, counts.size)
        change = _solved(counts, goal, block.stiffness)
        for part in block.parts:
            moved = found[part.rows].reshape(part.shape) + change.mean(axis=part.over)
            found[part.rows] = _centred(moved, self._kappa[part.rows].reshape(part.shape)).ravel()
        table.scale(block.clique, np.exp(change))


@final
class _Table:
    """The joint probabilities of a node's attributes, which change in place."""

    def __init__(self, attributes: Clique, values: Vector) -> None:
        self._attributes, self._values = attributes, values

    def marginal(self, clique: Clique) -> Vector:
        """In the order of the clique."""
        others = tuple(axis for axis, name in enumerate(self._attributes) if name not in clique)
        kept = [name for name in self._attributes if name in clique]
        summed = self._values.sum(axis=others)
        return np.asarray(summed.transpose([kept.index(name) for name in clique]))

    def scale(self, clique: Clique, factors: Vector) -> None:
        """Multiplies by a factor for each cell of the clique, and makes the sum 1 again."""
        order = sorted(range(len(clique)), key=lambda axis: self._attributes.index(clique[axis]))
        shape = [size if name in clique else 1 for name, size in zip(self._attributes, self._values.shape, strict=True)]
        self._values *= factors.transpose(order).reshape(shape)
        self._values /= self._values.sum()

    def receive(self, other: _Table, separator: Clique) -> None:
        """Takes over another node's marginal of what they share."""
        if separator:
            wanted, own = other.marginal(separator), self.marginal(separator)
            self.scale(separator, np.divide(wanted, own, out=np.zeros_like(own), where=own > 0))


def _tour(tree: JunctionTree) -> Iterator[tuple[int, int]]:
    """(from, to) along every link, there and back, each tree depth first; (-1, root) at its start."""
    children: list[list[int]] = [[] for _ in tree.nodes]
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(node)
    for root in (node for node, parent in enumerate(tree.parents) if parent < 0):
        yield -1, root
        path = [root]
        while path:
            if children[path[-1]]:
                node = children[path[-1]].pop()
                yield path[-1], node
                path.append(node)
            elif len(path) > 1:
                yield path.pop(), path[-1]
            else:
                path.pop()


def _spread(part: _Part, values: Vector, cells: int) -> Vector:
    """Values of a component, evenly over the cells of its clique above each; broadcasts to the clique's table."""
    return np.asarray(np.expand_dims(values, part.over) * (values.size / cells))


def _centred(table: Vector, weights: Vector | None = None) -> Vector:
    """Without its means along every axis, one after another. With weights each step leaves the least weighted sum of
    squares that a change constant along the axis can leave.
    """
    for axis in range(table.ndim):
        table = table - np.average(table, axis=axis, weights=weights, keepdims=True)
    return table


def _solved(counts: Vector, goal: Vector, stiffness: Vector) -> Vector:
    """d with counts e^d + stiffness d = goal in each cell, from the right, where no Newton step passes it."""
    change, up = np.zeros_like(counts), goal > counts
    with np.errstate(divide="ignore", over="ignore"):  # Their minimum is finite.
        change[up] = np.minimum(np.log(goal[up] / counts[up]), (goal[up] - counts[up]) / stiffness[up])
    change = np.minimum(change, _LONGEST)
    for _ in range(_STEPS):
        there = counts * np.exp(change)
        change = np.minimum(change - (there + stiffness * change - goal) / (there + stiffness), _LONGEST)
    return change
