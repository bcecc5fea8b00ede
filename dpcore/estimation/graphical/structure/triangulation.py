"""The size of a junction tree, now or with one more clique, without making the tree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.structure.elimination import clique_forest, fewest_cells

_INEXACT_FROM = 2.0**53  # From here on a float64 skips integers.


@final
class Triangulation:
    """The number of cells of the junction tree of some cliques, and of the tree with one more clique.

    The count is exact for the tree that ``JunctionTree.of`` would make. Only the connected components that a new clique
    touches are triangulated again, and no set of new edges is triangulated twice.

    domain: Attributes and their sizes.
    graph: The interaction graph of the cliques, from :func:`interaction_graph`; it is kept and never changed.
    cells: Cells of all nodes of the junction tree, an exact integer.
    """

    def __init__(self, domain: Domain, graph: NDArray[np.bool_]) -> None:
        self.domain = domain
        self._graph = graph
        self._sizes = np.array(domain.sizes, dtype=np.float64)
        self._position = {name: axis for axis, name in enumerate(domain.names)}
        self._components = [np.array(axes) for axes in components(graph)]
        self._graphs = [graph[axes[:, None], axes] for axes in self._components]
        self._component_of = {axis: number for number, axes in enumerate(self._components) for axis in axes.tolist()}
        self._cells = [self._tree_cells(*pair) for pair in zip(self._components, self._graphs, strict=True)]
        self.cells = sum(self._cells)
        self._cells_with: dict[tuple[tuple[int, int], ...], int] = {}

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Collection[str]]) -> Self:
        """The triangulation of the interaction graph of some cliques."""
        return cls(domain, interaction_graph(domain, cliques))

    def with_clique(self, clique: Collection[str]) -> Triangulation:
        """The triangulation of the cliques so far and this one."""
        return Triangulation(self.domain, self._graph | interaction_graph(self.domain, [clique]))

    def cells_with(self, clique: Iterable[str]) -> int:
        """Cells of the tree of ``JunctionTree.of`` with this clique added: an exact integer.

        A clique whose attributes are all adjacent already changes nothing. A clique that lies inside a node may still
        change the tree, because its edges may have come from the triangulation: then they are new to the graph, by
        which the greedy rules choose.
        """
        axes = sorted(self._position[name] for name in self.domain.canonical(clique))
        edges = tuple(
            (first, second)
            for rank, second in enumerate(axes)
            for first in axes[:rank]
            if not self._graph[first, second]
        )
        if not edges:
            return self.cells
        if edges not in self._cells_with:
            touched = sorted({self._component_of[axis] for axis in axes})
            joined, graph = self._joined(touched)
            ends = np.searchsorted(joined, np.array(edges).T)
            graph[ends[0], ends[1]] = graph[ends[1], ends[0]] = True
            before = sum(self._cells[number] for number in touched)
            self._cells_with[edges] = self.cells - before + self._tree_cells(joined, graph)
        return self._cells_with[edges]

    def _joined(self, numbers: list[int]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The attributes of some components, ascending, and a copy of the graph on them."""
        if len(numbers) == 1:
            return self._components[numbers[0]], self._graphs[numbers[0]].copy()
        joined = np.sort(np.concatenate([self._components[number] for number in numbers]))
        return joined, self._graph[joined[:, None], joined]

    def _tree_cells(self, axes: NDArray[np.intp], graph: NDArray[np.bool_]) -> int:
        """Cells of the tree of a connected graph on the attributes ``axes``."""
        sizes = self._sizes[axes]
        cells = fewest_cells(graph, sizes)
        if cells < _INEXACT_FROM:
            return int(cells)
        exact_sizes = [self.domain.sizes[axis] for axis in axes.tolist()]
        return sum(math.prod(exact_sizes[vertex] for vertex in node) for node in clique_forest(graph, sizes)[0])


def interaction_graph(domain: Domain, cliques: Iterable[Collection[str]]) -> NDArray[np.bool_]:
    """Which attributes share a clique: symmetric bool [attributes, attributes], False on the diagonal.

    Raises: ValueError for a clique with an attribute that the domain lacks.
    """
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
    """Triangulates each component of a graph and links the maximal cliques to a junction forest.

    graph: The interaction graph, as from :func:`interaction_graph`.
    sizes: Values of each attribute.

    Returns: The cliques as ascending positions of attributes, and for each the position of a clique that it is linked
        to, -1 for none.
    """
    nodes: list[tuple[int, ...]] = []
    links: list[int] = []
    for component in components(graph):
        axes = np.array(component)
        component_sizes = np.array([sizes[axis] for axis in component], dtype=np.float64)
        cliques, clique_links = clique_forest(graph[np.ix_(axes, axes)], component_sizes)
        links.extend(link + len(nodes) if link >= 0 else -1 for link in clique_links)
        nodes.extend(tuple(component[vertex] for vertex in clique) for clique in cliques)
    return nodes, links


def components(graph: NDArray[np.bool_]) -> list[list[int]]:
    """The connected components of a graph, each ascending, in the order of their first attributes."""
    all_components: list[list[int]] = []
    unvisited = np.ones(len(graph), dtype=np.bool_)
    for start in range(len(graph)):
        if unvisited[start]:
            component = [start]
            unvisited[start] = False
            for axis in component:
                neighbours = np.flatnonzero(graph[axis] & unvisited)
                unvisited[neighbours] = False
                component.extend(neighbours.tolist())
            all_components.append(sorted(component))
    return all_components
