"""Tables of the nodes of a junction tree, as a marginal oracle leaves them behind: one copy, read in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final, overload

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree


class NodeTable(NamedTuple):
    """The joint probabilities of a node's attributes.

    attributes: Those of the node, in any order.
    values: float64, one axis an attribute.
    """

    attributes: Clique
    values: NDArray[np.float64]


@final
class Conditionals(Sequence[NDArray[np.float64]]):
    """p(residual | separator) of each node, made from its joint table whenever it is asked for and kept nowhere.

    Each is float64 [cells of the separator, cells of the residual], in C order of the attributes as the tree lists
    them; rows of a separator's cell that has probability 0 are 0.

    joints: A joint table a node, in the order of the tree.
    """

    def __init__(self, tree: JunctionTree, joints: Sequence[NodeTable]) -> None:
        self.joints = tuple(joints)
        self._tree = tree
        if [set(table.attributes) for table in self.joints] != [set(node) for node in tree.nodes]:
            raise ValueError("joint tables of other attributes than those of the nodes; want one a node")

    def __len__(self) -> int:
        return len(self.joints)

    @overload
    def __getitem__(self, place: int) -> NDArray[np.float64]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[NDArray[np.float64]]: ...
    def __getitem__(self, place: int | slice) -> NDArray[np.float64] | Sequence[NDArray[np.float64]]:
        if isinstance(place, slice):
            return tuple(self[index] for index in range(*place.indices(len(self))))
        (attributes, values), node = self.joints[place], self._tree.nodes[place]
        rows = self._tree.domain.size(self._tree.separators[place])
        ordered = values.transpose([attributes.index(name) for name in node])
        cells: NDArray[np.float64] = np.array(ordered, order="C").reshape(rows, -1)
        sums = cells.sum(axis=1, keepdims=True)
        np.divide(cells, sums, out=cells, where=sums > 0)
        return cells
