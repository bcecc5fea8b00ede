"""What a junction tree weighs, and would weigh with one more clique."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.structure.elimination import clique_forest, fewest_cells

_EXACT = 2.0**53  # From here on a float64 skips integers.


@final
class Triangulation:
    """How many cells the junction tree of some cliques has, and would have with one clique more.

    Answers about ``JunctionTree.of`` without making a tree: exactly what it would weigh. Only the components that the
    new clique touches are triangulated again, and no set of new edges twice.
    """

    def __init__(self, domain: Domain, graph: NDArray[np.bool_]) -> None:
        """graph: As from :func:`interaction_graph`; kept, and never changed."""
        self.domain = domain
        self._graph = graph
        self._sizes = np.array(domain.sizes, dtype=np.float64)
        self._position = {name: axis for axis, name in enumerate(domain.names)}
        self._components = [np.array(axes) for axes in components(graph)]
        self._graphs = [graph[axes[:, None], axes] for axes in self._components]
        self._component_of = {axis: place for place, axes in enumerate(self._components) for axis in axes.tolist()}
        self._cells = [self._weight(*pair) for pair in zip(self._components, self._graphs, strict=True)]
        self.cells = sum(self._cells)
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Collection[str]]) -> Self:
        return cls(domain, interaction_graph(domain, cliques))

    def with_clique(self, clique: Collection[str]) -> Triangulation:
        """That of the cliques so far and this one."""
        return Triangulation(self.domain, self._graph | interaction_graph(self.domain, [clique]))

    def cells_with(self, clique: Iterable[str]) -> int:
        """Cells of ``JunctionTree.of`` with this clique added: an exact integer.

        A clique of attributes that are joined already changes nothing. One inside a node may: the edges that it adds
        were none of the graph's, and the greedy rules see them.
        """
        axes = sorted(self._position[name] for name in self.domain.canonical(clique))
        edges = tuple(
            (one, other) for place, other in enumerate(axes) for one in axes[:place] if not self._graph[one, other]
        )
        if not edges:
            return self.cells
        if edges not in self._known:
            touched = sorted({self._component_of[axis] for axis in axes})
            together, graph = self._joined(touched)
            ends = np.searchsorted(together, np.array(edges).T)
            graph[ends[0], ends[1]] = graph[ends[1], ends[0]] = True
            before = sum(self._cells[place] for place in touched)
            self._known[edges] = self.cells - before + self._weight(together, graph)
        return self._known[edges]

    def _joined(self, places: list[int]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The attributes of some components, ascending, and a copy of the graph on them."""
        if len(places) == 1:
            return self._components[places[0]], self._graphs[places[0]].copy()
        together = np.sort(np.concatenate([self._components[place] for place in places]))
        return together, self._graph[together[:, None], together]

    def _weight(self, axes: NDArray[np.intp], graph: NDArray[np.bool_]) -> int:
        """Cells of the tree of a connected graph on the attributes ``axes``."""
        sizes = self._sizes[axes]
        cells = fewest_cells(graph, sizes)
        if cells < _EXACT:
            return int(cells)
        values = [self.domain.sizes[axis] for axis in axes.tolist()]
        return sum(math.prod(values[place] for place in node) for node in clique_forest(graph, sizes)[0])


def interaction_graph(domain: Domain, cliques: Iterable[Collection[str]]) -> NDArray[np.bool_]:
    """Which attributes share a clique: symmetric [attributes, attributes], without a diagonal."""
    position = {name: axis for axis, name in enumerate(domain.names)}
    graph = np.zeros((len(position), len(position)), dtype=np.bool_)
    for clique in cliques:
        unknown = [name for name in clique if name not in position]
        if unknown:
            raise ValueError(f"clique {tuple(clique)} names {unknown}; want attributes of {list(domain.names)}")
        axes = [position[name] for name in clique]
        for axis in axes:
            graph[axis, axes] = True
    np.fill_diagonal(graph, False)
    return graph


def nodes_and_links(graph: NDArray[np.bool_], sizes: tuple[int, ...]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Maximal cliques of the triangulated graph, each component by its own rule, and the links of a junction forest.

    graph: As from :func:`interaction_graph`.
    Returns the cliques as ascending positions, and for each the position of a clique that it is linked to, -1 for none.
    """
    nodes: list[tuple[int, ...]] = []
    links: list[int] = []
    for component in components(graph):
        axes = np.array(component)
        values = np.array([sizes[axis] for axis in component], dtype=np.float64)
        parts, joined = clique_forest(graph[np.ix_(axes, axes)], values)
        links.extend(other + len(nodes) if other >= 0 else -1 for other in joined)
        nodes.extend(tuple(component[axis] for axis in part) for part in parts)
    return nodes, links


def components(graph: NDArray[np.bool_]) -> list[list[int]]:
    """Connected attributes, ascending, in the order of the first attribute of each component."""
    found: list[list[int]] = []
    left = np.ones(len(graph), dtype=np.bool_)
    for start in range(len(graph)):
        if left[start]:
            reached = [start]
            left[start] = False
            for axis in reached:
                fresh = np.flatnonzero(graph[axis] & left)
                left[fresh] = False
                reached.extend(fresh.tolist())
            found.append(sorted(reached))
    return found
