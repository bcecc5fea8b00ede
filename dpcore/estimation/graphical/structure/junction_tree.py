"""Junction trees: the nodes over which a graphical model keeps its tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.triangulation import interaction_graph, nodes_and_links


@final
@dataclass(frozen=True)
class JunctionTree:
    """A forest: a rooted junction tree for each connected component of a graph on the attributes of a domain.

    domain: Attributes and their sizes.
    nodes: Maximal cliques, parents before their children. A node names the attributes of its separator first, then
        those of its residual, which is never empty; each part is in the order of the domain.
    parents: Position of the parent of each node; -1 for a root.
    separators: The attributes that each node shares with its parent; () for a root and for no other node.

    Every attribute is in the residual of exactly one node, and the separator of a node lies in its parent. Hence the
    nodes that hold an attribute are connected: the running intersection property.

    Raises: ValueError for fields that break these rules.

    Source: Koller and Friedman (2009), section 10.1.
    """

    domain: Domain
    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    def __post_init__(self) -> None:
        if not len(self.nodes) == len(self.parents) == len(self.separators):
            raise ValueError("nodes, parents and separators of a junction tree differ in number")
        residuals: list[str] = []
        for number, (node, parent, separator) in enumerate(zip(self.nodes, self.parents, self.separators, strict=True)):
            self._check_node(number, node, parent, separator)
            residuals.extend(node[len(separator) :])
        if len(residuals) != len(self.domain.names) or set(residuals) != set(self.domain.names):
            raise ValueError("want every attribute of the domain in the residual of exactly one node")

    def _check_node(self, number: int, node: Clique, parent: int, separator: Clique) -> None:
        """Checks one node. Raises: ValueError for a node that breaks the rules of the tree."""
        if not -1 <= parent < number or (parent == -1) != (separator == ()):
            raise ValueError(f"node {number} {node}: want an earlier parent and a separator, or neither")
        if node[: len(separator)] != separator or len(node) == len(separator):
            raise ValueError(f"node {number} {node}: want the separator {separator} first, then at least one attribute")
        if parent >= 0 and not set(separator) < set(self.nodes[parent]):
            raise ValueError(f"node {number} {node}: want a separator inside, and smaller than, {self.nodes[parent]}")

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Collection[str]]) -> JunctionTree:
        """The tree of a greedy triangulation in which every clique lies inside some node.

        The tree is deterministic and does not depend on the order of the cliques or of the attributes in them. Each
        connected tree is rooted at its centre, and the parent of each node is the first node that contains its
        separator, so the trees are shallow.

        domain: Attributes and their sizes; an attribute in no clique becomes a node of its own.
        cliques: Attributes that a node must hold together.

        Raises: ValueError for a clique with an attribute that the domain lacks.
        """
        nodes, links = nodes_and_links(interaction_graph(domain, cliques), domain.sizes)
        order = _from_centres(nodes, links, domain.sizes)
        return cls._attached(domain, [nodes[number] for number in order])

    @classmethod
    def _attached(cls, domain: Domain, nodes: list[tuple[int, ...]]) -> JunctionTree:
        """The tree in which the parent of each node is the first node that contains its separator.

        nodes: Attributes by position, in an order with the running intersection property.
        """
        holders: list[list[int]] = [[] for _ in domain.names]
        named, parents, separators = [], [], []
        for number, node in enumerate(nodes):
            separator = tuple(axis for axis in node if holders[axis])
            parent = -1
            if separator:
                rarest = min(separator, key=lambda axis: len(holders[axis]))
                parent = next(holder for holder in holders[rarest] if set(separator) <= set(nodes[holder]))
            ordered = [*separator, *(axis for axis in node if not holders[axis])]
            for axis in node:
                holders[axis].append(number)
            named.append(tuple(domain.names[axis] for axis in ordered))
            parents.append(parent)
            separators.append(tuple(domain.names[axis] for axis in separator))
        return cls(domain, tuple(named), tuple(parents), tuple(separators))

    @property
    def residuals(self) -> tuple[Clique, ...]:
        """The attributes that each node adds to its parent, in the order of the domain."""
        return tuple(node[len(separator) :] for node, separator in zip(self.nodes, self.separators, strict=True))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of the table of each node."""
        values = dict(zip(self.domain.names, self.domain.sizes, strict=True))
        return tuple(math.prod(values[name] for name in node) for node in self.nodes)

    @property
    def cells(self) -> int:
        """Number of cells of all nodes together: an exact integer, however large."""
        return sum(self.sizes)

    def holds(self, clique: Iterable[str]) -> bool:
        """Whether some node contains the clique."""
        return self._smallest(clique) >= 0

    def node_of(self, clique: Iterable[str]) -> int:
        """Position of the node of fewest cells that contains the clique, the first of equals.

        Raises: ValueError when no node does.
        """
        number = self._smallest(clique)
        if number < 0:
            raise ValueError(
                f"no node of the junction tree contains {tuple(clique)}; want a clique that the tree was made for"
            )
        return number

    def _smallest(self, clique: Iterable[str]) -> int:
        """Position of the node of fewest cells that contains the clique, -1 if no node does."""
        names = set(clique)
        for name in names:
            self.domain.index(name)
        candidates = min((self._holders[name] for name in names), key=len, default=range(len(self.nodes)))
        containing = [number for number in candidates if names <= self._sets[number]]
        return min(containing, key=lambda number: (self.sizes[number], number), default=-1)

    @cached_property
    def _sets(self) -> tuple[frozenset[str], ...]:
        """The attributes of each node as a set."""
        return tuple(frozenset(node) for node in self.nodes)

    @cached_property
    def _holders(self) -> dict[str, list[int]]:
        """Positions of the nodes that contain each attribute."""
        holders: dict[str, list[int]] = {name: [] for name in self.domain.names}
        for number, node in enumerate(self.nodes):
            for name in node:
                holders[name].append(number)
        return holders


def _from_centres(nodes: list[tuple[int, ...]], links: list[int], sizes: tuple[int, ...]) -> list[int]:
    """Positions of the nodes, outwards from the centre of each tree; trees in the order of their first attribute."""
    adjacent: list[list[int]] = [[] for _ in nodes]
    for number, linked in enumerate(links):
        if linked >= 0:
            adjacent[number].append(linked)
            adjacent[linked].append(number)
    order: list[int] = []
    visited: set[int] = set()
    for start in sorted(range(len(nodes)), key=lambda number: nodes[number]):
        if start not in visited:
            outwards = _breadth_first(adjacent, _centre(adjacent, start, nodes, sizes))
            order.extend(outwards)
            visited.update(outwards)
    return order


def _centre(adjacent: list[list[int]], start: int, nodes: list[tuple[int, ...]], sizes: tuple[int, ...]) -> int:
    """The middle of a longest path of the tree that contains ``start``; of two middles, the one with more cells."""
    end = _breadth_first(adjacent, start)[-1]
    above = {end: end}
    for number in (outwards := _breadth_first(adjacent, end)):
        above.update({neighbour: number for neighbour in adjacent[number] if neighbour not in above})
    path = [outwards[-1]]
    while path[-1] != end:
        path.append(above[path[-1]])
    middles = (path[(len(path) - 1) // 2], path[len(path) // 2])
    return max(middles, key=lambda number: (math.prod(sizes[axis] for axis in nodes[number]), nodes[number]))


def _breadth_first(adjacent: list[list[int]], start: int) -> list[int]:
    """The nodes of the tree that contains ``start``, in breadth-first order."""
    order, visited = [start], {start}
    for number in order:
        neighbours = [neighbour for neighbour in adjacent[number] if neighbour not in visited]
        order.extend(neighbours)
        visited.update(neighbours)
    return order
