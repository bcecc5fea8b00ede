"""Routes through a junction tree: the nodes that contain an attribute, and the neighbours through which to reach it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import final

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.contraction import TooLargeError, labels_of, mask_of
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Group = tuple[int, int, int]  # (node where the queries meet, neighbour, mask of the common attributes); see ``group``.


@final
class TreeRoutes:
    """Routes of queries through a junction tree; sets of attributes are bit masks of positions in the domain.

    tree: The junction tree.
    parents: Parent of each node, -1 for roots.
    masks: The set of each node's attributes.
    roots: Root of the tree of each node.
    homes: The topmost node of each attribute.
    """

    def __init__(self, tree: JunctionTree) -> None:
        domain = tree.domain
        self._domain = domain
        self._index = {name: label for label, name in enumerate(domain.names)}
        self.parents = list(tree.parents)
        self.masks = [mask_of(self._index[name] for name in node) for node in tree.nodes]
        self._separators = [mask_of(self._index[name] for name in separator) for separator in tree.separators]
        self.roots: list[int] = []
        self.homes = [0] * len(domain.names)
        self._holders: list[list[int]] = [[] for _ in domain.names]
        for node, parent in enumerate(self.parents):
            self.roots.append(node if parent < 0 else self.roots[parent])
            for label in labels_of(self.masks[node] & ~self._separators[node]):
                self.homes[label] = node
            for label in labels_of(self.masks[node]):
                self._holders[label].append(node)
        self._cells = tree.sizes
        self._separator_cells = [domain.size(separator) for separator in tree.separators]
        # Number of attributes of each node's subtree outside the separator.
        self._below = [len(residual) for residual in tree.residuals]
        for node in reversed(range(len(self.parents))):
            if self.parents[node] >= 0:
                self._below[self.parents[node]] += self._below[node]
        # The nodes whose separators each node contains: itself and its children.
        self._near: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents):
            for holder in (node, parent) if parent >= 0 else ():
                self._near[holder].append(node)
        self._steps: dict[int, list[int]] = {}

    def labels(self, clique: Clique) -> tuple[int, ...]:
        """The clique's attributes by position, ascending. Raises: ValueError for unknown or repeated attributes."""
        try:
            labels = sorted([self._index[name] for name in clique])
        except KeyError:
            labels = []
        if len(labels) != len(clique) or len(set(labels)) != len(labels):
            self._domain.canonical(clique)  # This raises an error that says what is wrong.
        return tuple(labels)

    def separator(self, node: int, neighbour: int) -> int:
        """The set of attributes that two neighbours share."""
        return self._separators[neighbour] if self.parents[neighbour] == node else self._separators[node]

    def contraction_priority(self, node: int, neighbour: int) -> float:
        """Priority for contracting this neighbour last: attributes behind it / sqrt(cells of the separator)."""
        if self.parents[neighbour] == node:
            return self._below[neighbour] / math.sqrt(self._separator_cells[neighbour])
        behind = self._below[self.roots[node]] - self._below[node] - self._separators[node].bit_count()
        return behind / math.sqrt(self._separator_cells[node])

    def branches(self, node: int, query_mask: int) -> dict[int, int]:
        """The attributes of a query that a node lacks, by the neighbour through which they are reached; bit masks."""
        remaining, by_neighbour = query_mask & ~self.masks[node], dict[int, int]()
        while remaining:
            lowest = remaining & -remaining
            step = self._steps_to(lowest.bit_length() - 1)[node]
            by_neighbour[step] = by_neighbour.get(step, 0) | lowest
            remaining ^= lowest
        return by_neighbour

    def meeting(self, query_mask: int) -> tuple[int, dict[int, int]]:
        """The node where the attributes of a query, all in one tree, meet.

        Returns: The smallest node that contains all of them, else a node with at most half of them behind any
            neighbour; and the ``branches`` of the node.
        """
        labels = labels_of(query_mask)
        rarest = min((self._holders[label] for label in labels), key=len)
        holders = [node for node in rarest if not query_mask & ~self.masks[node]]
        if holders:
            return min(holders, key=self._cells.__getitem__), {}
        node, branches, moving = rarest[0], dict[int, int](), True
        while moving:
            moving = False
            held, branches = query_mask & self.masks[node], self.branches(node, query_mask)
            for neighbour, part in branches.items():
                # Messages get shorter past a node whose attributes of the query the neighbour contains as well.
                passes = len(branches) == 1 and not held & ~self.separator(node, neighbour)
                if passes or 2 * part.bit_count() > len(labels):
                    node, moving = neighbour, True
                    break
        return node, branches

    def group(self, labels: tuple[int, ...]) -> Group:
        """The group of a query: (node, neighbour, common attributes).

        Queries of one group meet at the same node and differ in one attribute only, which lies behind the edge to the
        same neighbour. The node is -1 if the attributes are in several trees. The neighbour is -1 if no edge has a
        single attribute behind it; the query is then a group of its own.
        """
        query_mask = mask_of(labels)
        node, branches = -1, dict[int, int]()
        if len({self.roots[self.homes[label]] for label in labels}) == 1:
            node, branches = self.meeting(query_mask)
        single_branches = [neighbour for neighbour, part in branches.items() if part.bit_count() == 1]
        if not single_branches:
            return node, -1, query_mask
        # Many attributes behind an edge make large groups, and a small separator makes short messages.
        last = max(single_branches, key=lambda neighbour: self.contraction_priority(node, neighbour))
        return node, last, query_mask & ~branches[last]

    def splittable(self, node: int, sizes: Sequence[int], error: TooLargeError, max_cells: int) -> int:
        """The attributes of a node by whose values a table that is too large can be split, as a mask.

        It is empty if even blocks of single values of all of them would be too large.

        node: The node where a group meets, or -1.
        sizes: Number of values of each attribute; fewer than in the domain if the attribute is restricted already.
        error: The error for the table.
        max_cells: The largest number of cells allowed.
        """
        mask = error.mask & self.masks[node] if node >= 0 else 0
        min_cells = error.cells // math.prod(sizes[label] for label in labels_of(mask))
        return mask if min_cells <= max_cells else 0

    def split_attribute(self, node: int, sizes: Sequence[int], tables: Collection[tuple[int, int]]) -> int:
        """The attribute of a node by whose values to split the tables into blocks, -1 for none.

        node: The node where the groups meet.
        sizes: As in ``splittable``.
        tables: Number of cells of each table that is too large, and the attributes that can split it.

        A good attribute is in tables with many cells, and in many separators: every block multiplies the messages
        without the attribute again.
        """
        best, max_gain = -1, 0.0
        for label in labels_of(self.masks[node]):
            cells = sum(size for size, mask in tables if mask >> label & 1)
            separators = sum(self._separators[near] >> label & 1 for near in self._near[node])
            gain = cells * (1 - 1 / sizes[label]) * (1 + separators) ** 2
            if gain > max_gain:
                best, max_gain = label, gain
        return best

    def _steps_to(self, label: int) -> list[int]:
        """For each node the neighbour towards an attribute; undefined at nodes that contain it and in other trees."""
        steps = self._steps.get(label)
        if steps is None:
            steps = self.parents.copy()
            node = self.homes[label]
            while self.parents[node] >= 0:
                steps[self.parents[node]] = node
                node = self.parents[node]
            self._steps[label] = steps
        return steps
