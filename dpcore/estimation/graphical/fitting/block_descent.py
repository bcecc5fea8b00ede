"""Block coordinate descent on the dual of ``maximum_entropy``: iterative proportional fitting for noisy marginals.

If the noise is small relative to the counts, a fit far from its optimum takes hundreds of quasi-Newton steps to find
the large cells. A step along all potentials of one clique r, given the current marginal of r, finds them directly.
A change d of the log-potentials on r changes every component u inside r by the mean of d over r - u, and

    f(new) - f(old) <= sum over cells of  m e^d - goal d + k d^2 / 2  + constant,
    goal = m - sum_u (component of m - y_u + kappa_u lambda_u) / n_(r - u),    k = sum_u kappa_u / n_(r - u),

with m the current counts of the clique, by log(1 + t) <= t and Jensen's inequality. The right side is minimal where
m e^d + k d = goal in each cell, so no step raises f. The part of lambda_u that the centring of u removes does not
change the model but is penalised, so it is subtracted.

The tables of the nodes stay calibrated, because a message is sent along every link before the node at its end is read.

A step multiplies the table of a node by factors on r. It multiplies the marginal on any s that contains r by the same
factors, and changes the node by the ratio of the new marginal on s to the old one. A group of cliques inside s
therefore takes its steps in the table of s, and the node is read and multiplied once for the whole group. The groups
are those from which the marginal oracle sums (``contraction_plan``), one inside another, so that a sweep over all
cliques takes about as long as a few calls of the marginal oracle, however many cliques a node has.

Source: Deming and Stephan (1940) for noiseless marginals, Jirousek and Preucil (1995) for junction trees; the bound is
derived above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.axis_runs import multiply, summed
from dpcore.estimation.graphical.inference.belief_propagation import MarginalOracle
from dpcore.estimation.graphical.inference.contraction_plan import NestedPart, nested_parts
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Vector = NDArray[np.float64]
_NEWTON_STEPS: Final = 8  # For each cell, an equation in one variable.
_LARGEST_FACTOR: Final = 1e130  # Times 0 it is 0, unlike infinity.
_MAX_CHANGE: Final = 300.0  # Its exponential is finite, and a shortened step lowers f as well.


class _Part(NamedTuple):
    """A component inside a clique.

    rows: Its rows in the measurement matrix.
    shape: Shape of its table.
    over: Axes of the clique that the component lacks.
    """

    rows: slice
    shape: tuple[int, ...]
    over: tuple[int, ...]


class _Block(NamedTuple):
    """A clique all of whose components were measured.

    clique: Its attributes.
    parts: Its components.
    stiffness: k in each cell, float64 with the shape of the clique.
    """

    clique: Clique
    parts: tuple[_Part, ...]
    stiffness: Vector


@final
class BlockDescent:
    """Sweeps over the measured cliques of a junction tree.

    tree: A junction tree of the cliques.
    matrix: The measurement matrix of the fit. Sweeps skip products, and cliques with a component that was not
        measured.
    total: Number of rows of the model, > 0.
    kappa: Curvature of the penalty along each row, strength / precision; float64 [rows].
    """

    def __init__(self, tree: JunctionTree, matrix: MeasurementMatrix, total: float, kappa: Vector) -> None:
        self._tree, self._matrix, self._total, self._kappa = tree, matrix, total, kappa
        blocks: list[dict[Clique, _Block]] = [{} for _ in tree.nodes]
        for block in self._measured_blocks():
            blocks[tree.node_of(block.clique)][block.clique] = block
        self._blocks = blocks
        self._groups = [
            nested_parts(tree.domain, node, tuple(of_node)) for node, of_node in zip(tree.nodes, blocks, strict=True)
        ]
        self._tour = list(_tour(tree))

    @property
    def has_blocks(self) -> bool:
        """Whether there is any clique to sweep over."""
        return any(self._blocks)

    @property
    def parts(self) -> int:
        """Number of pairs of a clique that a sweep visits and a component of it."""
        return sum(len(block.parts) for of_node in self._blocks for block in of_node.values())

    @property
    def cells(self) -> int:
        """Number of cells of all cliques that a sweep visits."""
        return sum(block.stiffness.size for of_node in self._blocks for block in of_node.values())

    def sweep(self, oracle: MarginalOracle, base: Vector, start: Vector, times: int) -> Vector:
        """Sweeps over all cliques ``times`` times. f never rises, up to rounding.

        oracle: The marginal oracle of the tree and the cliques of the matrix.
        base: Log-potentials of the base, float64 [matrix.queries.size].
        start: First multipliers, float64 [rows].
        times: Number of sweeps.

        Returns: The multipliers after the sweeps, float64 [rows].
        """
        multipliers = start.copy()
        oracle.marginals(base + self._matrix.apply_transpose(multipliers))
        tables = [_Table(*joint) for joint in oracle.take_tables()]
        for _ in range(times):
            for origin, node in self._tour:
                if origin >= 0:
                    tables[node].receive(tables[origin], self._tree.separators[max(origin, node)])
                if origin == self._tree.parents[node]:
                    self._lower_below(self._groups[node], self._blocks[node], tables[node], multipliers)
        return multipliers

    def _measured_blocks(self) -> Iterator[_Block]:
        """The cliques all of whose components were measured."""
        matrix, domain = self._matrix, self._tree.domain
        numbers = {
            measurement.clique: number for number, measurement in enumerate(matrix.measurements) if measurement.centred
        }
        for clique in matrix.queries.cliques:
            subsets = [subset for size in range(1, len(clique) + 1) for subset in combinations(clique, size)]
            if all(subset in numbers for subset in subsets):
                parts, stiffness = [], np.zeros(domain.shape(clique))
                for subset in subsets:
                    rows = slice(int(matrix.starts[numbers[subset]]), int(matrix.starts[numbers[subset] + 1]))
                    over = tuple(axis for axis, name in enumerate(clique) if name not in subset)
                    parts.append(_Part(rows, domain.shape(subset), over))
                    stiffness += _spread(parts[-1], self._kappa[rows].reshape(parts[-1].shape), stiffness.size)
                yield _Block(clique, tuple(parts), stiffness)

    def _lower_below(
        self, group: NestedPart, blocks: Mapping[Clique, _Block], table: _Table, multipliers: Vector
    ) -> None:
        """Takes the steps of all cliques below a group in its table: changes the table and the multipliers in place."""
        for part in group.parts:
            if part.parts:
                marginal = table.marginal(part.clique)
                changed = _Table(part.clique, marginal.copy())
                if part.is_asked:
                    self._lower(blocks[part.clique], changed, multipliers)
                self._lower_below(part, blocks, changed, multipliers)
                table.scale(part.clique, changed.relative_to(marginal))
            else:
                self._lower(blocks[part.clique], table, multipliers)

    def _lower(self, block: _Block, table: _Table, multipliers: Vector) -> None:
        """Takes the step of one clique: changes the table of its node and the multipliers in place."""
        counts = self._total * table.marginal(block.clique)
        goal = counts.copy()
        for part in block.parts:
            rows = part.rows
            slope = _centred(counts.sum(axis=part.over)) - self._matrix.values[rows].reshape(part.shape)
            slope += (self._kappa[rows] * multipliers[rows]).reshape(part.shape)
            goal -= _spread(part, slope, counts.size)
        change = _solve(counts, goal, block.stiffness)
        for part in block.parts:
            moved = multipliers[part.rows].reshape(part.shape) + change.mean(axis=part.over)
            multipliers[part.rows] = _centred(moved, self._kappa[part.rows].reshape(part.shape)).ravel()
        table.scale(block.clique, np.exp(change))


@final
class _Table:
    """The joint probabilities of a clique's attributes, which change in place.

    attributes: The attributes, in the order of the axes.
    values: The probabilities, float64 and contiguous, with one axis per attribute.
    """

    def __init__(self, attributes: Clique, values: Vector) -> None:
        self._attributes, self._values = attributes, values

    def marginal(self, clique: Clique) -> Vector:
        """The marginal of a clique inside the table, with axes in the order of the clique."""
        table = summed(self._values, self._is_in(clique))
        kept = [name for name in self._attributes if name in clique]
        return np.ascontiguousarray(table.transpose([kept.index(name) for name in clique]))

    def scale(self, clique: Clique, factors: Vector) -> None:
        """Multiplies the table by a factor for each cell of the clique, and normalises it."""
        order = sorted(range(len(clique)), key=lambda axis: self._attributes.index(clique[axis]))
        multiply(self._values, factors.transpose(order), self._is_in(clique))
        self._values /= self._values.sum()

    def receive(self, sender: _Table, separator: Clique) -> None:
        """Changes the marginal of the separator to that of the sender."""
        if separator:
            self.scale(separator, _ratio(sender.marginal(separator), self.marginal(separator)))

    def relative_to(self, earlier: Vector) -> Vector:
        """The table divided by an earlier one of the same clique."""
        return _ratio(self._values, earlier)

    def _is_in(self, clique: Clique) -> list[bool]:
        return [name in clique for name in self._attributes]


def _ratio(new: Vector, old: Vector) -> Vector:
    """Factors from old to new probabilities, finite; 0 where the old one is 0."""
    with np.errstate(over="ignore"):
        ratio = np.divide(new, old, out=np.zeros_like(new), where=old > 0)
    return np.minimum(ratio, _LARGEST_FACTOR)


def _tour(tree: JunctionTree) -> Iterator[tuple[int, int]]:
    """(from, to) along every link in both directions, depth first; each tree starts with (-1, root)."""
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
    """Values of a component, spread evenly over the cells of the clique; the result broadcasts to its table."""
    return np.asarray(np.expand_dims(values, part.over) * (values.size / cells))


def _centred(table: Vector, weights: Vector | None = None) -> Vector:
    """The table less its means along every axis, one after another.

    With weights, weighted means are subtracted: each step minimises the weighted sum of squares over changes that are
    constant along the axis.
    """
    for axis, size in enumerate(table.shape):  # np.average is slow for small tables.
        if weights is None:
            table = table - np.add.reduce(table, axis, keepdims=True) / size
        else:
            sums = np.add.reduce(table * weights, axis, keepdims=True)
            table = table - sums / np.add.reduce(weights, axis, keepdims=True)
    return table


def _solve(counts: Vector, goal: Vector, stiffness: Vector) -> Vector:
    """Solves counts e^d + stiffness d = goal for d in each cell, by Newton steps from above, which never overshoot."""
    change, rises = np.zeros_like(counts), goal > counts
    with np.errstate(divide="ignore", over="ignore"):  # The minimum of the two is finite.
        change[rises] = np.minimum(
            np.log(goal[rises] / counts[rises]), (goal[rises] - counts[rises]) / stiffness[rises]
        )
    change = np.minimum(change, _MAX_CHANGE)
    for _ in range(_NEWTON_STEPS):
        new_counts = counts * np.exp(change)
        change = np.minimum(change - (new_counts + stiffness * change - goal) / (new_counts + stiffness), _MAX_CHANGE)
    return change
