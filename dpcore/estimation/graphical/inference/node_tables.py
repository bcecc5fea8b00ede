"""The joint tables that a marginal oracle computes for the nodes of a junction tree, and conditionals from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final, overload

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree


class NodeTable(NamedTuple):
    """The joint probabilities of a node's attributes.

    attributes: The attributes of the node, in any order.
    values: Probabilities, float64 with one axis for each attribute in that order.
    """

    attributes: Clique
    values: NDArray[np.float64]


@final
class Conditionals(Sequence[NDArray[np.float64]]):
    """p(residual | separator) of each node, computed from its joint table at each access and stored nowhere.

    An item is float64 [cells of the separator, cells of the residual], in C order of the attributes as the tree lists
    them. The row of a separator's cell that has probability 0 is 0.

    tree: The junction tree.
    joints: One joint table for each node, in the order of the tree.

    Raises: ValueError for tables of other attributes than those of the nodes.
    """

    def __init__(self, tree: JunctionTree, joints: Sequence[NodeTable]) -> None:
        self.joints = tuple(joints)
        self._tree = tree
        if [set(table.attributes) for table in self.joints] != [set(node) for node in tree.nodes]:
            raise ValueError("joint tables of other attributes than those of the nodes; want one table for each node")

    def __len__(self) -> int:
        return len(self.joints)

    @overload
    def __getitem__(self, number: int) -> NDArray[np.float64]: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[NDArray[np.float64]]: ...
    def __getitem__(self, number: int | slice) -> NDArray[np.float64] | Sequence[NDArray[np.float64]]:
        if isinstance(number, slice):
            return tuple(self[index] for index in range(*number.indices(len(self))))
        (attributes, values), node = self.joints[number], self._tree.nodes[number]
        rows = self._tree.domain.size(self._tree.separators[number])
        ordered = values.transpose([attributes.index(name) for name in node])
        cells: NDArray[np.float64] = np.array(ordered, order="C").reshape(rows, -1)
        sums = cells.sum(axis=1, keepdims=True)
        np.divide(cells, sums, out=cells, where=sums > 0)
        return cells
