"""Random conditionals over junction trees, and the dense joint table that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Conditionals = tuple[NDArray[np.float64], ...]


def random_conditionals(tree: JunctionTree, generator: np.random.Generator, *, zeros: float = 0.0) -> Conditionals:
    """p(residual | separator) of each node. zeros: Share of cells that are 0, at least one cell of each row is not."""
    conditionals = []
    for node, separator in zip(tree.nodes, tree.separators, strict=True):
        rows = tree.domain.size(separator)
        weights = generator.random((rows, tree.domain.size(node) // rows)) + 0.01
        weights[generator.random(weights.shape) < zeros] = 0.0
        weights[:, 0] += weights.sum(axis=1) == 0
        conditionals.append(weights / weights.sum(axis=1, keepdims=True))
    return tuple(conditionals)


def joint_table(tree: JunctionTree, conditionals: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The product of all conditionals, shape of the domain."""
    terms: list[object] = []
    for node, conditional in zip(tree.nodes, conditionals, strict=True):
        terms += [conditional.reshape(tree.domain.shape(node)), list(tree.domain.axes(node))]
    return np.asarray(np.einsum(*terms, list(range(len(tree.domain.names)))))


def summed_to(table: NDArray[np.float64], domain: Domain, clique: Clique) -> NDArray[np.float64]:
    """The marginal of a dense table, attributes in the order of the domain."""
    return np.asarray(table.sum(axis=tuple(axis for axis, name in enumerate(domain.names) if name not in clique)))
