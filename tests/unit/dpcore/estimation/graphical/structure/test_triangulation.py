"""What a tree would weigh with a clique more, against making the tree."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.graphical.structure.triangulation import Triangulation, components, interaction_graph
from tests.support.graphs import SHAPES, GraphShape, long_chain, random_shape

CASES = {
    **SHAPES,
    **{f"random {seed}": random_shape(seed, attributes=9, cliques=9) for seed in range(40)},
    **{f"sparse {seed}": random_shape(seed, attributes=12, cliques=6, largest=2) for seed in range(15)},
}


def candidates(domain: Domain, largest: int = 3) -> list[Clique]:
    return [clique for order in range(largest + 1) for clique in combinations(domain.names, order)]


@pytest.mark.parametrize("case", CASES)
def test_is_what_the_tree_with_the_clique_weighs(case: str) -> None:
    shape = CASES[case]
    triangulation = Triangulation.of(shape.domain, shape.cliques)
    assert triangulation.cells == JunctionTree.of(shape.domain, shape.cliques).cells
    for clique in candidates(shape.domain)[::2]:
        wanted = JunctionTree.of(shape.domain, [*shape.cliques, clique]).cells
        assert triangulation.cells_with(clique) == wanted, clique
        assert triangulation.cells_with(clique[::-1]) == wanted, clique
    assert triangulation.cells == JunctionTree.of(shape.domain, shape.cliques).cells


def test_a_clique_inside_a_node_may_change_the_tree() -> None:
    """The reason why a clique inside a node is not simply free: its edges lead the greedy rules elsewhere."""
    domain = Domain.of(dict(zip("abcdef", (4, 3, 4, 2, 3, 2), strict=True)))
    cliques = [tuple(pair) for pair in ("ab", "ae", "af", "bc", "bf", "cd", "ce", "de", "df")]
    assert JunctionTree.of(domain, cliques).holds(("b", "d"))
    triangulation = Triangulation.of(domain, cliques)
    assert triangulation.cells == 180
    assert triangulation.cells_with(("b", "d")) == JunctionTree.of(domain, [*cliques, ("b", "d")]).cells == 192


@pytest.mark.parametrize("seed", range(10))
def test_cliques_can_be_added_one_after_another(seed: int) -> None:
    shape = random_shape(seed, attributes=10, cliques=12)
    triangulation = Triangulation.of(shape.domain, [])
    for place, clique in enumerate(shape.cliques):
        promised = triangulation.cells_with(clique)
        triangulation = triangulation.with_clique(clique)
        assert triangulation.cells == promised
        assert triangulation.cells == JunctionTree.of(shape.domain, shape.cliques[: place + 1]).cells


def test_a_clique_of_joined_attributes_is_free() -> None:
    shape = SHAPES["nested cliques"]
    triangulation = Triangulation.of(shape.domain, shape.cliques)
    for clique in ((), ("c",), ("a", "d"), ("d", "b", "a"), ("e", "d")):
        assert triangulation.cells_with(clique) == triangulation.cells


def test_cells_are_exact_however_many() -> None:
    names = tuple(f"x{place}" for place in range(80))
    triangulation = Triangulation.of(Domain(names, (7,) * 80), [names[:40], names[40:79]])
    assert triangulation.cells == 7**40 + 7**39 + 7
    assert triangulation.cells_with(names[:41]) == 7**41 + 7**39 + 7
    assert triangulation.cells_with(("x79", "x0")) == 7**40 + 7**39 + 49
    assert triangulation.cells_with(names) == 7**80


def test_cells_that_no_float_holds() -> None:
    names = tuple(f"x{place}" for place in range(60))
    domain = Domain(names, (10**9,) * 60)
    ring = (*names, *names[:15])
    cliques = [ring[place : place + 30] for place in (0, 15, 30, 45)]
    triangulation = Triangulation.of(domain, cliques)
    assert triangulation.cells == JunctionTree.of(domain, cliques).cells == 2 * 10 ** (9 * 45)
    assert triangulation.cells_with(names) == 10 ** (9 * 60)


def test_closing_a_long_chain_to_a_ring() -> None:
    chain = long_chain(300, 4, width=2)
    triangulation = Triangulation.of(chain.domain, chain.cliques)
    assert triangulation.cells == 299 * 16
    assert triangulation.cells_with(("x0", "x299")) == 298 * 64
    assert triangulation.cells_with(("x10", "x14")) == (299 - 4) * 16 + 3 * 64


def test_unknown_and_repeated_attributes_are_refused() -> None:
    shape = SHAPES["tree"]
    triangulation = Triangulation.of(shape.domain, shape.cliques)
    with pytest.raises(ValueError, match="unknown attribute 'z'"):
        triangulation.cells_with(("a", "z"))
    with pytest.raises(ValueError, match="repeats an attribute"):
        triangulation.cells_with(("a", "a"))


def test_components_are_in_the_order_of_their_first_attribute() -> None:
    shape = GraphShape(Domain.of(dict.fromkeys("abcdef", 2)), (("f", "b"), ("e", "a"), ("c", "f")))
    graph = interaction_graph(shape.domain, shape.cliques)
    assert components(graph) == [[0, 4], [1, 2, 5], [3]]
    assert not graph.diagonal().any()
    assert np.array_equal(graph, graph.T)
    assert int(graph.sum()) == 6
