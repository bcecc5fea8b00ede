"""Slow marginal oracles of graphical models that the compiled one must equal: the table of all records, the reference.

``BruteForce`` sums the table of the whole domain. ``ReferenceOracle`` gives ``dpcore.estimation.graphical.reference``,
which works on a tree of its own, the interface of a marginal oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.node_tables import NodeTable
from dpcore.estimation.graphical.reference import clique_marginals
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals

LARGEST_CELLS = 2**24


@final
class BruteForce:
    """The distribution of Definition 25 of the thesis, cell by cell: the marginal oracle of small domains.

    tree: Read for its domain and, by ``conditionals``, for its nodes.
    cliques: Where log-potentials live.
    log_partition: Of the last call.

    Raises ValueError for a domain of more than 2^24 cells.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        cells = tree.domain.size()
        if cells > LARGEST_CELLS:
            raise ValueError(f"the domain has {cells:,} cells; brute force takes at most {LARGEST_CELLS:,}")
        self.tree = tree
        self.queries = Marginals(tree.domain, tuple(cliques) or ((),))
        self.log_partition = 0.0

    def joint(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of every record, shape ``domain.sizes``; all zero where the potentials exclude them all.

        potentials: float64 [queries.size]; -inf excludes a cell.
        """
        if potentials.shape != (self.queries.size,):
            raise ValueError(f"potentials have shape {potentials.shape}; want ({self.queries.size},)")
        domain = self.tree.domain
        logs = np.zeros(domain.sizes)
        for clique, table in zip(self.queries.cliques, self.queries.split(potentials), strict=True):
            logs += _spread(domain, clique, np.asarray(table, dtype=np.float64))
        largest = float(logs.max())
        if largest == -np.inf:
            self.log_partition = -np.inf
            return np.zeros(domain.sizes)
        weights = np.exp(logs - largest)
        total = float(weights.sum())
        self.log_partition = largest + float(np.log(total))
        return np.asarray(weights / total)

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size]."""
        joint = self.joint(potentials)
        return np.concatenate([_summed(self.tree.domain, joint, clique).ravel() for clique in self.queries.cliques])

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual].

        A row is zero where its cell of the separator has probability 0.
        """
        joint = self.joint(potentials)
        return _conditionals(self.tree, [_summed(self.tree.domain, joint, node) for node in self.tree.nodes])


@final
class ReferenceOracle:
    """Belief propagation of ``reference.clique_marginals`` with the arguments and results of ``Inference``.

    tree: Its nodes get potentials of 0, so that the reference, which eliminates the attributes backwards, knows their
        marginals as well.
    cliques: Where log-potentials live.
    log_partition: Of the last call.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self.tree = tree
        self.queries = Marginals(tree.domain, tuple(cliques) or ((),))
        self.log_partition = 0.0
        self._joints: list[NDArray[np.float64]] = []  # Of the nodes, after a call of ``marginals`` that fits.

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size]."""
        tables, joints = self._propagate(potentials)
        self._joints = joints if self.log_partition > -np.inf else []
        return np.concatenate([table.ravel() for table in tables])

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual]."""
        self._joints = []
        return _conditionals(self.tree, self._propagate(potentials)[1])

    def take_tables(self) -> tuple[NodeTable, ...]:
        """The joint tables of all nodes that the last call of ``marginals`` computed."""
        if len(self._joints) != len(self.tree.nodes):
            raise RuntimeError(
                "no joint tables to take; want a call of marginals before, with potentials that allow some record"
            )
        joints, self._joints = self._joints, []
        return tuple(NodeTable(node, table) for node, table in zip(self.tree.nodes, joints, strict=True))

    def _propagate(
        self, potentials: NDArray[np.float64]
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """Marginals of the cliques, and of the nodes with their axes in the order of the tree."""
        if potentials.shape != (self.queries.size,):
            raise ValueError(f"potentials have shape {potentials.shape}; want ({self.queries.size},)")
        domain = self.tree.domain
        nodes = [domain.canonical(node) for node in self.tree.nodes]
        tables = [np.asarray(table, dtype=np.float64) for table in self.queries.split(potentials)]
        factors = [
            *zip(self.queries.cliques, tables, strict=True),
            *((node, np.zeros(domain.shape(node))) for node in nodes),
        ]
        found, self.log_partition = clique_marginals(domain, factors, domain.names[::-1])
        split = len(tables)
        joints = [
            table.transpose([node.index(name) for name in wanted])
            for table, node, wanted in zip(found[split:], nodes, self.tree.nodes, strict=True)
        ]
        return found[:split], joints


def _conditionals(tree: JunctionTree, joints: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    """joints: A table for each node, axes in the order of the tree."""
    conditionals = []
    for separator, joint in zip(tree.separators, joints, strict=True):
        table = joint.reshape(tree.domain.size(separator), -1)
        sums = table.sum(axis=1, keepdims=True)
        conditionals.append(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))
    return tuple(conditionals)


def _spread(domain: Domain, clique: Clique, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table of a clique, in the order of the domain, with an axis of length 1 for each attribute it lacks."""
    sizes = zip(domain.names, domain.sizes, strict=True)
    return table.reshape([size if name in clique else 1 for name, size in sizes])


def _summed(domain: Domain, joint: NDArray[np.float64], names: Clique) -> NDArray[np.float64]:
    """The marginal of some attributes, with its axes in the order in which they are named."""
    kept = domain.canonical(names)
    others = tuple(axis for axis, name in enumerate(domain.names) if name not in kept)
    return np.transpose(joint.sum(axis=others), [kept.index(name) for name in names])
