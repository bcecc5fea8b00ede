"""Exact marginals of a graphical model from the table of the whole domain: what every marginal oracle must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals

LARGEST = 2**24  # Cells of the domain.


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
        if cells > LARGEST:
            raise ValueError(f"the domain has {cells:,} cells; brute force takes at most {LARGEST:,}")
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
        found = []
        for node, separator in zip(self.tree.nodes, self.tree.separators, strict=True):
            table = _summed(self.tree.domain, joint, node).reshape(self.tree.domain.size(separator), -1)
            sums = table.sum(axis=1, keepdims=True)
            found.append(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))
        return tuple(found)


def _spread(domain: Domain, clique: Clique, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table of a clique, in the order of the domain, with an axis of length 1 for each attribute it lacks."""
    sizes = zip(domain.names, domain.sizes, strict=True)
    return table.reshape([size if name in clique else 1 for name, size in sizes])


def _summed(domain: Domain, joint: NDArray[np.float64], names: Clique) -> NDArray[np.float64]:
    """The marginal of some attributes, with its axes in the order in which they are named."""
    kept = domain.canonical(names)
    others = tuple(axis for axis, name in enumerate(domain.names) if name not in kept)
    return np.transpose(joint.sum(axis=others), [kept.index(name) for name in names])
