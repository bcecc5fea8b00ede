"""Junction trees: the nodes over which a graphical model keeps its tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.triangulation import interaction_graph, nodes_and_links

_BYTES = 8  # A cell is a float64.


@final
@dataclass(frozen=True)
class JunctionTree:
    """A junction tree of each component of a graph on the attributes of ``domain``: a forest with one root each.

    nodes: Maximal cliques, parents before their children. A node names the attributes of its separator first, then
        its residual (which is never empty), each part in the order of the domain.
    parents: Position of the parent of each node; -1 for a root.
    separators: What each node shares with its parent; () for a root, and for a root alone.

    Every attribute is in the residual of exactly one node, and the separator of a node lies in its parent: the nodes
    that hold an attribute are connected (the running intersection property).
    """

    domain: Domain
    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    separators: tuple[Clique, ...]

    def __post_init__(self) -> None:
        if not len(self.nodes) == len(self.parents) == len(self.separators):
            raise ValueError("nodes, parents and separators of a junction tree differ in number")
        residuals: list[str] = []
        for place, (node, parent, separator) in enumerate(zip(self.nodes, self.parents, self.separators, strict=True)):
            self._check_node(place, node, parent, separator)
            residuals.extend(node[len(separator) :])
        if len(residuals) != len(self.domain.names) or set(residuals) != set(self.domain.names):
            raise ValueError("want every attribute of the domain in the residual of exactly one node")

    def _check_node(self, place: int, node: Clique, parent: int, separator: Clique) -> None:
        if not -1 <= parent < place or (parent == -1) != (separator == ()):
            raise ValueError(f"node {place} {node}: want an earlier parent and a separator, or neither")
        if node[: len(separator)] != separator or len(node) == len(separator):
            raise ValueError(f"node {place} {node}: want the separator {separator} first, then at least one attribute")
        if parent >= 0 and not set(separator) < set(self.nodes[parent]):
            raise ValueError(f"node {place} {node}: want a separator inside, and smaller than, {self.nodes[parent]}")

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Collection[str]]) -> JunctionTree:
        """The tree of a greedy triangulation in which every clique lies inside some node.

        Deterministic; the order of the cliques and of the attributes in them is no part of it. Each tree hangs from
        its centre, and each node from the first node that holds its separator, so the trees are shallow.
        """
        nodes, links = nodes_and_links(interaction_graph(domain, cliques), domain.sizes)
        order = _from_centres(nodes, links, domain.sizes)
        return cls._hung(domain, [nodes[place] for place in order])

    @classmethod
    def _hung(cls, domain: Domain, nodes: list[tuple[int, ...]]) -> JunctionTree:
        """Each node under the first that holds what it shares with those before it.

        nodes: Attributes by position, in an order with the running intersection property.
        """
        holders: list[list[int]] = [[] for _ in domain.names]
        named, parents, separators = [], [], []
        for place, node in enumerate(nodes):
            separator = tuple(axis for axis in node if holders[axis])
            parent = -1
            if separator:
                rarest = min(separator, key=lambda axis: len(holders[axis]))
                parent = next(other for other in holders[rarest] if set(separator) <= set(nodes[other]))
            ordered = [*separator, *(axis for axis in node if not holders[axis])]
            for axis in node:
                holders[axis].append(place)
            named.append(tuple(domain.names[axis] for axis in ordered))
            parents.append(parent)
            separators.append(tuple(domain.names[axis] for axis in separator))
        return cls(domain, tuple(named), tuple(parents), tuple(separators))

    @property
    def residuals(self) -> tuple[Clique, ...]:
        """What each node adds to its parent, in the order of the domain."""
        return tuple(node[len(separator) :] for node, separator in zip(self.nodes, self.separators, strict=True))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each node."""
        values = dict(zip(self.domain.names, self.domain.sizes, strict=True))
        return tuple(math.prod(values[name] for name in node) for node in self.nodes)

    @property
    def cells(self) -> int:
        """Cells of all nodes: an exact integer, however large."""
        return sum(self.sizes)

    @property
    def size_mb(self) -> float:
        """Size of the tables of all nodes, in MiB of float64: JT-SIZE of the thesis (section 4.5.1)."""
        return _BYTES * self.cells / 2**20

    def holds(self, clique: Iterable[str]) -> bool:
        """Whether some node contains the clique."""
        return self._smallest(clique) >= 0

    def node_of(self, clique: Iterable[str]) -> int:
        """Position of the node of fewest cells that contains the clique, the first of equals.

        Raises: ValueError when no node does.
        """
        place = self._smallest(clique)
        if place < 0:
            raise ValueError(
                f"no node of the junction tree contains {tuple(clique)}; want a clique that it was made for"
            )
        return place

    def _smallest(self, clique: Iterable[str]) -> int:
        names = set(clique)
        for name in names:
            self.domain.index(name)
        rarest = min((self._holding[name] for name in names), key=len, default=range(len(self.nodes)))
        fitting = [place for place in rarest if names <= self._sets[place]]
        return min(fitting, key=lambda place: (self.sizes[place], place), default=-1)

    @cached_property
    def _sets(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(node) for node in self.nodes)

    @cached_property
    def _holding(self) -> dict[str, list[int]]:
        """Positions of the nodes that contain each attribute."""
        holding: dict[str, list[int]] = {name: [] for name in self.domain.names}
        for place, node in enumerate(self.nodes):
            for name in node:
                holding[name].append(place)
        return holding


def _from_centres(nodes: list[tuple[int, ...]], links: list[int], sizes: tuple[int, ...]) -> list[int]:
    """Positions of the nodes, outwards from the centre of each tree; trees in the order of their first attribute."""
    near: list[list[int]] = [[] for _ in nodes]
    for place, other in enumerate(links):
        if other >= 0:
            near[place].append(other)
            near[other].append(place)
    order: list[int] = []
    seen: set[int] = set()
    for start in sorted(range(len(nodes)), key=lambda place: nodes[place]):
        if start not in seen:
            outwards = _outwards(near, _centre(near, start, nodes, sizes))
            order.extend(outwards)
            seen.update(outwards)
    return order


def _centre(near: list[list[int]], start: int, nodes: list[tuple[int, ...]], sizes: tuple[int, ...]) -> int:
    """The middle of a longest path of the tree; of two middles the one of more cells."""
    end = _outwards(near, start)[-1]
    above = {end: end}
    for place in (outwards := _outwards(near, end)):
        above.update({other: place for other in near[place] if other not in above})
    path = [outwards[-1]]
    while path[-1] != end:
        path.append(above[path[-1]])
    middles = (path[(len(path) - 1) // 2], path[len(path) // 2])
    return max(middles, key=lambda place: (math.prod(sizes[axis] for axis in nodes[place]), nodes[place]))


def _outwards(near: list[list[int]], start: int) -> list[int]:
    """The tree of ``start``, breadth first."""
    order, seen = [start], {start}
    for place in order:
        fresh = [other for other in near[place] if other not in seen]
        order.extend(fresh)
        seen.update(fresh)
    return order
