"""Exact marginals of a graphical model by whole-array operations: easy to read, and at home on a GPU.

One operation of an array namespace for each step of belief propagation: slower than the compiled loops of
``Inference`` on a processor, most of all where nodes are many and small, and fit for few large ones on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.inference.node_tables import NodeTable
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals

Array = Any  # Of the namespace.


class _View(NamedTuple):
    """How the table of a clique lies in the table of a node that contains it.

    shape: Of the clique's table.
    order: Its axes in the order of the node; ``back`` is the way back.
    spread: Its shape in the node, 1 for each attribute that it lacks.
    lacking: Axes of the node that it lacks.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    spread: tuple[int, ...]
    lacking: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, clique: Clique, node: Clique) -> _View:
        kept = [name for name in node if name in clique]
        return cls(
            domain.shape(clique),
            tuple(clique.index(name) for name in kept),
            tuple(kept.index(name) for name in clique),
            tuple(size if name in clique else 1 for name, size in zip(node, domain.shape(node), strict=True)),
            tuple(axis for axis, name in enumerate(node) if name not in clique),
        )

    def up(self, table: Array) -> Array:
        """The clique's table with the axes of the node: to be added or multiplied there."""
        return table.reshape(self.shape).transpose(self.order).reshape(self.spread)

    def down(self, node: Array) -> Array:
        """The node's table summed over what the clique lacks, axes in the clique's own order."""
        return node.sum(axis=self.lacking).transpose(self.back)


@final
class ArrayInference:
    """The marginal oracle with the arguments and results of ``Inference``; see there.

    xp: The array namespace that computes: numpy, or cupy for a GPU. Potentials, marginals and conditionals are numpy
        arrays in any case; a call moves each of them once.

    Raises ValueError for a clique that no node contains.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique], xp: ModuleType = np) -> None:
        self.tree = tree
        self.queries = Marginals(tree.domain, tuple(cliques) or ((),))
        self.log_partition = 0.0
        self._xp = xp
        self._joints: list[Array] = []  # Of the last call, where it was one of marginals.
        self._bounds = np.cumsum([0, *self.queries.sizes]).tolist()
        # Views by node: of the cliques that it holds, of the messages of its children, of its own separator.
        self._cliques: list[list[tuple[int, _View]]] = [[] for _ in tree.nodes]
        self._children: list[list[tuple[int, _View]]] = [[] for _ in tree.nodes]
        for index, clique in enumerate(self.queries.cliques):
            node = tree.node_of(clique)
            self._cliques[node].append((index, _View.of(tree.domain, clique, tree.nodes[node])))
        for child, parent in enumerate(tree.parents):
            if parent >= 0:
                view = _View.of(tree.domain, tree.separators[child], tree.nodes[parent])
                self._children[parent].append((child, view))
        self._own = [
            _View.of(tree.domain, separator, node) for separator, node in zip(tree.separators, tree.nodes, strict=True)
        ]

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size]; all zero where none is possible."""
        self._joints = []
        conditionals = self._collect(potentials)
        if self.log_partition == -np.inf:
            return np.zeros(self._bounds[-1])
        found = self._xp.zeros(self._bounds[-1])
        from_parent: dict[int, Array] = {}
        for node, table in enumerate(conditionals):
            if node in from_parent:
                table *= self._own[node].up(from_parent.pop(node))
            for index, view in self._cliques[node]:
                found[self._bounds[index] : self._bounds[index + 1]] = view.down(table).reshape(-1)
            for child, view in self._children[node]:
                from_parent[child] = view.down(table)
        self._joints = conditionals
        return self._to_numpy(found)

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual].

        A row is zero where the potentials exclude its cell of the separator by this node or those below it.
        """
        self._joints = []
        tables = map(self._to_numpy, self._collect(potentials))
        rows = map(self.tree.domain.size, self.tree.separators)
        return tuple(table.reshape(count, -1) for table, count in zip(tables, rows, strict=True))

    def take_tables(self) -> tuple[NodeTable, ...]:
        """The joint tables of all nodes as the last call of ``marginals`` left them; the oracle forgets them.

        Raises RuntimeError where the last call was another one, or its potentials excluded every cell.
        """
        if len(self._joints) != len(self.tree.nodes):
            raise RuntimeError("no joint tables to hand over; want a call of marginals before, of potentials that fit")
        given, self._joints = self._joints, []
        return tuple(NodeTable(node, self._to_numpy(table)) for node, table in zip(self.tree.nodes, given, strict=True))

    def _collect(self, potentials: NDArray[np.float64]) -> list[Array]:
        """Leaves to roots: the conditional of every node, with the axes of the node; sets the log-partition."""
        if potentials.shape != (self._bounds[-1],):
            raise ValueError(f"potentials have shape {potentials.shape}; want ({self._bounds[-1]},)")
        given = self._xp.asarray(potentials)
        conditionals: list[Array] = [None] * len(self.tree.nodes)
        messages: dict[int, Array] = {}
        for node in reversed(range(len(self.tree.nodes))):
            logs = self._xp.zeros(self.tree.domain.shape(self.tree.nodes[node]))
            for index, view in self._cliques[node]:
                logs += view.up(given[self._bounds[index] : self._bounds[index + 1]])
            for child, view in self._children[node]:
                logs += view.up(messages.pop(child))
            conditionals[node], messages[node] = self._normalised(logs, self._own[node])
        self.log_partition = float(sum(messages.values()))
        return conditionals

    def _normalised(self, logs: Array, separator: _View) -> tuple[Array, Array]:
        """Probabilities that sum to 1 for every cell of the separator, and the logarithms of what they summed to."""
        xp, residual = self._xp, separator.lacking
        largest = logs.max(axis=residual, keepdims=True)
        weights = xp.exp(logs - xp.where(largest > -xp.inf, largest, 0.0))
        sums = weights.sum(axis=residual, keepdims=True)
        divisors = xp.where(sums > 0, sums, 1.0)  # A largest weight is 1, or all are 0 and stay so.
        return weights / divisors, (largest + xp.log(divisors)).reshape(separator.shape)

    def _to_numpy(self, array: Array) -> NDArray[np.float64]:
        move = getattr(self._xp, "asnumpy", np.asarray)
        return np.asarray(move(array), dtype=np.float64)


def gpu_inference(tree: JunctionTree, cliques: Sequence[Clique]) -> ArrayInference:
    """The oracle on the first GPU. Raises ConfigError where cupy is missing or finds no GPU."""
    try:
        import cupy
    except ImportError as error:
        raise ConfigError("device gpu needs cupy; install marquee[gpu]") from error
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ConfigError(f"device gpu: no GPU that CUDA can use ({error}); want one, or device cpu") from error
    if found == 0:
        raise ConfigError("device gpu: CUDA finds no GPU; want one, or device cpu")
    return ArrayInference(tree, cliques, cupy)
