"""Where attributes lie in a junction tree: which nodes hold them, and in which direction the others find them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import final

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.contraction import TooLargeError, labels_of, mask_of
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

Group = tuple[int, int, int]  # (node, its neighbour, attributes in common)


@final
class TreeRoutes:
    """Where the attributes lie in a junction tree; sets of attributes are bit masks of positions in the domain."""

    def __init__(self, tree: JunctionTree) -> None:
        domain = tree.domain
        self._domain = domain
        self._index = {name: label for label, name in enumerate(domain.names)}
        self.parents = list(tree.parents)
        self.masks = [mask_of(self._index[name] for name in node) for node in tree.nodes]
        self._separators = [mask_of(self._index[name] for name in separator) for separator in tree.separators]
        self.roots: list[int] = []  # Root of each node's tree.
        self.homes = [0] * len(domain.names)  # The topmost node of each attribute.
        self._holders: list[list[int]] = [[] for _ in domain.names]
        for node, parent in enumerate(self.parents):
            self.roots.append(node if parent < 0 else self.roots[parent])
            for label in labels_of(self.masks[node] & ~self._separators[node]):
                self.homes[label] = node
            for label in labels_of(self.masks[node]):
                self._holders[label].append(node)
        self._cells = tree.sizes
        self._separator_cells = [domain.size(separator) for separator in tree.separators]
        self._below = [len(residual) for residual in tree.residuals]  # Attributes of the node's subtree, separator not.
        for node in reversed(range(len(self.parents))):
            if self.parents[node] >= 0:
                self._below[self.parents[node]] += self._below[node]
        # Of each node those whose separators it holds: itself and its children.
        self._near: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents):
            for holder in (node, parent) if parent >= 0 else ():
                self._near[holder].append(node)
        self._steps: dict[int, list[int]] = {}

    def labels(self, clique: Clique) -> tuple[int, ...]:
        """The clique's attributes by position, ascending; raises ValueError for unknown or repeated ones."""
        try:
            labels = sorted([self._index[name] for name in clique])
        except KeyError:
            labels = []
        if len(labels) != len(clique) or len(set(labels)) != len(labels):
            self._domain.canonical(clique)  # Says what is wrong.
        return tuple(labels)

    def separator(self, node: int, other: int) -> int:
        """What two neighbours share."""
        return self._separators[other] if self.parents[other] == node else self._separators[node]

    def worth(self, node: int, other: int) -> float:
        """How well a neighbour is left to the last: attributes behind it by the root of the separator's cells."""
        if self.parents[other] == node:
            return self._below[other] / math.sqrt(self._separator_cells[other])
        behind = self._below[self.roots[node]] - self._below[node] - self._separators[node].bit_count()
        return behind / math.sqrt(self._separator_cells[node])

    def branches(self, node: int, wanted: int) -> dict[int, int]:
        """The neighbours behind which wanted attributes lie that are not in the node, and which."""
        rest, found = wanted & ~self.masks[node], dict[int, int]()
        while rest:
            lowest = rest & -rest
            step = self._steps_to(lowest.bit_length() - 1)[node]
            found[step] = found.get(step, 0) | lowest
            rest ^= lowest
        return found

    def meeting(self, wanted: int) -> tuple[int, dict[int, int]]:
        """The smallest node that holds all wanted attributes, else one with at most half of them in any direction.

        All attributes are of one tree. Returns the node and its ``branches``.
        """
        labels = labels_of(wanted)
        rarest = min((self._holders[label] for label in labels), key=len)
        holders = [node for node in rarest if not wanted & ~self.masks[node]]
        if holders:
            return min(holders, key=self._cells.__getitem__), {}
        node, branches, moving = rarest[0], dict[int, int](), True
        while moving:
            moving = False
            here, branches = wanted & self.masks[node], self.branches(node, wanted)
            for other, part in branches.items():
                # Past a node whose own attributes all go along, messages get shorter.
                passed = len(branches) == 1 and not here & ~self.separator(node, other)
                if passed or 2 * part.bit_count() > len(labels):
                    node, moving = other, True
                    break
        return node, branches

    def group(self, labels: tuple[int, ...]) -> Group:
        """Queries of one group differ in one attribute, which lies behind one edge of the node where they meet.

        The node is -1 for attributes of several trees, the neighbour where no edge has a single attribute behind it.
        """
        wanted = mask_of(labels)
        node, branches = -1, dict[int, int]()
        if len({self.roots[self.homes[label]] for label in labels}) == 1:
            node, branches = self.meeting(wanted)
        single = [other for other, part in branches.items() if part.bit_count() == 1]
        if not single:
            return node, -1, wanted
        # Many attributes behind an edge make large groups, a small separator makes short messages.
        last = max(single, key=lambda other: self.worth(node, other))
        return node, last, wanted & ~branches[last]

    def cuttable(self, node: int, sizes: Sequence[int], error: TooLargeError, largest: int) -> int:
        """Attributes of a node that a table has, where blocks of their values can make it small enough; else none.

        sizes: Values of each attribute, fewer than the domain's where they are cut already.
        """
        mask = error.mask & self.masks[node] if node >= 0 else 0
        least = error.cells // math.prod(sizes[label] for label in labels_of(mask))
        return mask if least <= largest else 0

    def cut(self, node: int, sizes: Sequence[int], tables: Collection[tuple[int, int]]) -> int:
        """The attribute whose values to take in blocks, -1 for none.

        tables: Cells of each table that is too large, and attributes of the node by which it may be cut.

        Much of the tables should be about it; and where many separators hold it, few messages are not about it, by
        which every block would multiply again.
        """
        best, most = -1, 0.0
        for label in labels_of(self.masks[node]):
            cells = sum(size for size, mask in tables if mask >> label & 1)
            held = sum(self._separators[other] >> label & 1 for other in self._near[node])
            gain = cells * (1 - 1 / sizes[label]) * (1 + held) ** 2
            if gain > most:
                best, most = label, gain
        return best

    def _steps_to(self, label: int) -> list[int]:
        """For each node the neighbour towards the attribute; of no meaning at nodes that hold it and in other trees."""
        steps = self._steps.get(label)
        if steps is None:
            steps = self.parents.copy()
            node = self.homes[label]
            while self.parents[node] >= 0:
                steps[self.parents[node]] = node
                node = self.parents[node]
            self._steps[label] = steps
        return steps
