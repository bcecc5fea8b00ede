"""Random graphical models on named shapes, and their joint tables, cell by cell."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import GraphShape


def random_model(shape: GraphShape, seed: int, *, total: float = 100.0, zeros: float = 0.3) -> GraphicalModel:
    """Conditionals of which about the share ``zeros`` of cells is 0; rows of separators of probability 0 are 0."""
    generator = np.random.default_rng(seed)
    tree = JunctionTree.of(shape.domain, shape.cliques)
    tables: list[NDArray[np.float64]] = []
    for node, separator in zip(tree.nodes, tree.separators, strict=True):
        rows, columns = tree.domain.size(separator), tree.domain.size(node[len(separator) :])
        weights = generator.exponential(size=(rows, columns)) * (generator.random((rows, columns)) >= zeros)
        weights[np.arange(rows), generator.integers(columns, size=rows)] += 0.1
        tables.append(weights / weights.sum(axis=1, keepdims=True))
    joint = joint_table(GraphicalModel(tree, tuple(tables), total))
    for separator, table in zip(tree.separators, tables, strict=True):
        table[marginal(joint, tree.domain, separator).ravel() == 0] = 0.0
    return GraphicalModel(tree, tuple(tables), total)


def joint_table(model: GraphicalModel) -> NDArray[np.float64]:
    """p(x) of every record, shape of the domain."""
    domain, tree = model.domain, model.tree
    joint = np.ones(domain.sizes)
    for record in product(*(range(size) for size in domain.sizes)):
        value = dict(zip(domain.names, record, strict=True))
        for node, separator, table in zip(tree.nodes, tree.separators, model.conditionals, strict=True):
            residual = node[len(separator) :]
            joint[record] *= table[_cell(domain, separator, value), _cell(domain, residual, value)]
    return joint


def marginal(joint: NDArray[np.float64], domain: Domain, clique: Clique) -> NDArray[np.float64]:
    """The table of a clique, axes in the order in which it lists its attributes."""
    summed = joint.sum(axis=tuple(axis for axis, name in enumerate(domain.names) if name not in clique))
    kept = [name for name in domain.names if name in clique]
    return np.asarray(np.transpose(summed, [kept.index(name) for name in clique]))


def _cell(domain: Domain, clique: Clique, value: dict[str, int]) -> int:
    cell = 0
    for name in clique:
        cell = cell * domain.size((name,)) + value[name]
    return cell
