"""Greedy elimination against the same rules on sets of vertices, scored anew at every step."""

from __future__ import annotations

import math
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.graphical.structure.elimination import clique_forest, fewest_cells

Near = dict[int, set[int]]
Rule = Callable[[Near, list[int], int], tuple[float, float]]


def random_graph(seed: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 13))
    upper = np.triu(generator.random((count, count)) < generator.choice([0.1, 0.25, 0.4, 0.7]), 1)
    return upper | upper.T, generator.integers(1, 30, size=count).astype(np.float64)


def missing(near: Near, vertex: int) -> list[tuple[int, int]]:
    around = sorted(near[vertex])
    return [(one, other) for one in around for other in around if one < other and other not in near[one]]


def weight(near: Near, sizes: list[int], vertex: int) -> int:
    return math.prod(sizes[other] for other in (vertex, *near[vertex]))


def min_fill(near: Near, sizes: list[int], vertex: int) -> tuple[float, float]:
    return len(missing(near, vertex)), weight(near, sizes, vertex)


def min_cells(near: Near, sizes: list[int], vertex: int) -> tuple[float, float]:
    return weight(near, sizes, vertex), len(missing(near, vertex))


def min_weighted_fill(near: Near, sizes: list[int], vertex: int) -> tuple[float, float]:
    return sum(sizes[one] * sizes[other] for one, other in missing(near, vertex)), weight(near, sizes, vertex)


RULES = (min_fill, min_cells, min_weighted_fill)


def bends(attempt: int, count: int) -> list[float]:
    """Factors on the costs of vertices 0, 1, ...: multiples of the golden ratio, spread over exp(-1) to exp(1)."""
    golden = (math.sqrt(5) - 1) / 2
    return [math.exp(2 * ((vertex + 1) * attempt * golden % 1 - 0.5)) if attempt else 1.0 for vertex in range(count)]


def cliques_by(rule: Rule, graph: NDArray[np.bool_], sizes: list[int], attempt: int) -> set[frozenset[int]]:
    """The maximal cliques of the graph as it is triangulated by one rule, its costs bent as the attempt has it."""
    factors = bends(attempt, len(sizes))

    def cost(vertex: int) -> tuple[float, float, int]:
        counted, tie = rule(near, sizes, vertex)
        return counted * factors[vertex], tie, vertex

    near = {vertex: set(np.flatnonzero(row).tolist()) for vertex, row in enumerate(graph)}
    cliques = []
    while near:
        free = [vertex for vertex in near if not missing(near, vertex)]
        vertex = min(free) if free else min(near, key=cost)
        cliques.append(frozenset({vertex, *near[vertex]}))
        for one, other in missing(near, vertex):
            near[one].add(other)
            near[other].add(one)
        for other in near.pop(vertex):
            near[other].remove(vertex)
    return {clique for clique in cliques if not any(clique < other for other in cliques)}


def total(cliques: set[frozenset[int]], sizes: list[int]) -> int:
    return sum(math.prod(sizes[vertex] for vertex in clique) for clique in cliques)


@pytest.mark.parametrize("seed", range(150))
def test_is_the_smallest_of_the_three_rules_and_their_bent_costs(seed: int) -> None:
    graph, values = random_graph(seed)
    sizes = values.astype(int).tolist()
    found = [cliques_by(rule, graph, sizes, attempt) for attempt in range(4) for rule in RULES]
    wanted = min(found, key=lambda cliques: total(cliques, sizes))
    cliques, _ = clique_forest(graph, values)
    assert {frozenset(clique) for clique in cliques} == wanted
    assert len(cliques) == len(wanted)
    assert fewest_cells(graph, values) == total(wanted, sizes)


def test_every_rule_and_every_attempt_is_the_smallest_of_some_graph() -> None:
    """So the law above sees whether one of them goes wrong."""
    best = set()
    for seed in range(400):
        graph, values = random_graph(seed)
        sizes = values.astype(int).tolist()
        tried = [(rule, attempt) for attempt in range(4) for rule in RULES]
        weights = [total(cliques_by(rule, graph, sizes, attempt), sizes) for rule, attempt in tried]
        if weights.count(min(weights)) == 1:
            best.add(tried[weights.index(min(weights))])
    assert {rule for rule, _ in best} == set(RULES)
    assert {attempt for _, attempt in best} == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(60))
def test_is_a_triangulation_by_networkx(seed: int) -> None:
    graph, values = random_graph(seed)
    cliques, _ = clique_forest(graph, values)
    filled = nx.Graph()
    filled.add_nodes_from(range(values.size))
    for clique in cliques:
        filled.add_edges_from((one, other) for one in clique for other in clique if one < other)
    assert nx.is_chordal(filled)
    assert {frozenset(clique) for clique in nx.chordal_graph_cliques(filled)} == {frozenset(one) for one in cliques}
    assert all(filled.has_edge(one, other) for one, other in np.argwhere(graph))
    if nx.is_chordal(plain := nx.from_numpy_array(graph)):
        assert filled.edges == plain.edges


@pytest.mark.parametrize("seed", range(60))
def test_links_join_cliques_to_a_forest_with_running_intersections(seed: int) -> None:
    graph, values = random_graph(seed)
    cliques, links = clique_forest(graph, values)
    forest = nx.Graph()
    forest.add_nodes_from(range(len(cliques)))
    forest.add_edges_from((place, other) for place, other in enumerate(links) if other >= 0)
    assert nx.is_forest(forest)
    assert nx.number_connected_components(forest) == nx.number_connected_components(nx.from_numpy_array(graph))
    for vertex in range(values.size):
        holders = [place for place, clique in enumerate(cliques) if vertex in clique]
        assert nx.is_connected(forest.subgraph(holders))


def test_the_arguments_are_left_as_they_are() -> None:
    graph, values = random_graph(3)
    kept = graph.copy(), values.copy()
    clique_forest(graph, values)
    fewest_cells(graph, values)
    assert np.array_equal(graph, kept[0])
    assert np.array_equal(values, kept[1])
