"""Routes through a junction tree: which nodes hold an attribute, and through which neighbours it is reached."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import final

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.contraction import TooLargeError, labels_of, mask_of
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Group = tuple[int, int, int]  # (node where the queries meet, its neighbour, mask of the attributes in common)


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
        self._below = [
            len(residual) for residual in tree.residuals
        ]  # Attributes of the node's subtree outside the separator.
        for node in reversed(range(len(self.parents))):
            if self.parents[node] >= 0:
                self._below[self.parents[node]] += self._below[node]
        # The nodes whose separators each node holds: itself and its children.
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
            self._domain.canonical(clique)  # Raises an error that says what is wrong.
        return tuple(labels)

    def separator(self, node: int, neighbour: int) -> int:
        """The set of attributes that two neighbours share."""
        return self._separators[neighbour] if self.parents[neighbour] == node else self._separators[node]

    def contraction_priority(self, node: int, neighbour: int) -> float:
        """Priority for contracting this neighbour last: attributes behind it over the root of the separator's cells."""
        if self.parents[neighbour] == node:
            return self._below[neighbour] / math.sqrt(self._separator_cells[neighbour])
        behind = self._below[self.roots[node]] - self._below[node] - self._separators[node].bit_count()
        return behind / math.sqrt(self._separator_cells[node])

    def branches(self, node: int, wanted: int) -> dict[int, int]:
        """The wanted attributes that the node lacks, by the neighbour through which they are reached."""
        remaining, by_neighbour = wanted & ~self.masks[node], dict[int, int]()
        while remaining:
            lowest = remaining & -remaining
            step = self._steps_to(lowest.bit_length() - 1)[node]
            by_neighbour[step] = by_neighbour.get(step, 0) | lowest
            remaining ^= lowest
        return by_neighbour

    def meeting(self, wanted: int) -> tuple[int, dict[int, int]]:
        """Where a query's attributes, all of one tree, meet.

        Returns: The smallest node that holds all of them, else a node with at most half of them behind any neighbour;
            and its ``branches``.
        """
        labels = labels_of(wanted)
        rarest = min((self._holders[label] for label in labels), key=len)
        holders = [node for node in rarest if not wanted & ~self.masks[node]]
        if holders:
            return min(holders, key=self._cells.__getitem__), {}
        node, branches, moving = rarest[0], dict[int, int](), True
        while moving:
            moving = False
            held, branches = wanted & self.masks[node], self.branches(node, wanted)
            for neighbour, part in branches.items():
                # Messages get shorter past a node whose wanted attributes the neighbour holds too.
                passes = len(branches) == 1 and not held & ~self.separator(node, neighbour)
                if passes or 2 * part.bit_count() > len(labels):
                    node, moving = neighbour, True
                    break
        return node, branches

    def group(self, labels: tuple[int, ...]) -> Group:
        """The group of a query: queries of one group differ in one attribute behind one edge of the node where they
        meet.

        The node is -1 for attributes of several trees. The neighbour is -1 where no edge has a single attribute behind
        it.
        """
        wanted = mask_of(labels)
        node, branches = -1, dict[int, int]()
        if len({self.roots[self.homes[label]] for label in labels}) == 1:
            node, branches = self.meeting(wanted)
        single = [neighbour for neighbour, part in branches.items() if part.bit_count() == 1]
        if not single:
            return node, -1, wanted
        # Many attributes behind an edge make large groups, a small separator makes short messages.
        last = max(single, key=lambda neighbour: self.contraction_priority(node, neighbour))
        return node, last, wanted & ~branches[last]

    def splittable(self, node: int, sizes: Sequence[int], error: TooLargeError, max_cells: int) -> int:
        """The attributes of a node that a table has, where blocks of their values make it small enough; else none.

        node: The node where a group meets, or -1.
        sizes: Number of values of each attribute, fewer than the domain's where it is restricted already.
        error: The table that is too large.
        max_cells: The largest number of cells allowed.
        """
        mask = error.mask & self.masks[node] if node >= 0 else 0
        min_cells = error.cells // math.prod(sizes[label] for label in labels_of(mask))
        return mask if min_cells <= max_cells else 0

    def split_attribute(self, node: int, sizes: Sequence[int], tables: Collection[tuple[int, int]]) -> int:
        """The attribute of a node whose values to take in blocks, -1 for none.

        tables: Number of cells of each table that is too large, and the attributes of the node that can split it.

        Many cells should be in tables with the attribute. Where many separators hold it, few messages lack it, which
        every block would multiply again.
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
        """For each node the neighbour towards the attribute; meaningless at nodes that hold it and in other trees."""
        steps = self._steps.get(label)
        if steps is None:
            steps = self.parents.copy()
            node = self.homes[label]
            while self.parents[node] >= 0:
                steps[self.parents[node]] = node
                node = self.parents[node]
            self._steps[label] = steps
        return steps
