"""Junction trees of named and random structures."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import SHAPES, GraphShape, long_chain, random_shape, ring

CASES = {**SHAPES, **{f"random {seed}": random_shape(seed, attributes=12, cliques=14, largest=4) for seed in range(60)}}
ABC = Domain.of({"a": 2, "b": 3, "c": 5})


def tree_of(shape: GraphShape) -> JunctionTree:
    return JunctionTree.of(shape.domain, shape.cliques)


def interactions(shape: GraphShape) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(shape.domain.names)
    graph.add_edges_from((one, other) for clique in shape.cliques for one in clique for other in clique if one != other)
    return graph


@pytest.fixture(params=CASES)
def shape(request: pytest.FixtureRequest) -> GraphShape:
    return CASES[request.param]


def test_every_clique_lies_inside_a_node(shape: GraphShape) -> None:
    tree = tree_of(shape)
    for clique in shape.cliques:
        assert tree.holds(clique)
        home = tree.node_of(clique)
        assert set(clique) <= set(tree.nodes[home])
        holding = [size for node, size in zip(tree.nodes, tree.sizes, strict=True) if set(clique) <= set(node)]
        assert tree.sizes[home] == min(holding)


def test_nodes_that_hold_an_attribute_are_connected(shape: GraphShape) -> None:
    tree = tree_of(shape)
    forest = nx.Graph()
    forest.add_nodes_from(range(len(tree.nodes)))
    forest.add_edges_from((place, parent) for place, parent in enumerate(tree.parents) if parent >= 0)
    for name in shape.domain.names:
        assert nx.is_connected(forest.subgraph([place for place, node in enumerate(tree.nodes) if name in node]))


def test_there_is_one_tree_for_each_component(shape: GraphShape) -> None:
    tree = tree_of(shape)
    graph = interactions(shape)
    roots = [place for place, parent in enumerate(tree.parents) if parent == -1]
    assert len(roots) == nx.number_connected_components(graph)
    component = {name: place for place, names in enumerate(nx.connected_components(graph)) for name in names}
    assert all(len({component[name] for name in node}) == 1 for node in tree.nodes)


def test_nodes_are_maximal_and_written_separator_first(shape: GraphShape) -> None:
    tree = tree_of(shape)
    sets = [set(node) for node in tree.nodes]
    assert not any(one <= other for place, one in enumerate(sets) for other in sets[:place] + sets[place + 1 :])
    for place, (node, parent, separator) in enumerate(zip(tree.nodes, tree.parents, tree.separators, strict=True)):
        assert parent < place
        shared = sets[place] & sets[parent] if parent >= 0 else set()
        assert separator == tree.domain.canonical(shared)
        assert tree.residuals[place] == tree.domain.canonical(sets[place] - shared) != ()
        assert node == separator + tree.residuals[place]


def test_separators_are_as_large_as_a_maximum_spanning_tree_has_them(shape: GraphShape) -> None:
    tree = tree_of(shape)
    overlaps = nx.Graph()
    overlaps.add_nodes_from(range(len(tree.nodes)))
    for place, node in enumerate(tree.nodes):
        overlaps.add_weighted_edges_from((place, at, len(set(node) & set(tree.nodes[at]))) for at in range(place))
    wanted = nx.maximum_spanning_tree(overlaps).size(weight="weight")
    assert sum(len(separator) for separator in tree.separators) == wanted


def test_a_chordal_structure_is_its_own_triangulation(shape: GraphShape) -> None:
    graph = interactions(shape)
    if nx.is_chordal(graph):
        assert {frozenset(node) for node in tree_of(shape).nodes} == set(nx.chordal_graph_cliques(graph))
    else:
        assert max(len(node) for node in tree_of(shape).nodes) > 2


def test_cells_are_those_of_the_nodes(shape: GraphShape) -> None:
    tree = tree_of(shape)
    assert tree.cells == sum(math.prod(shape.domain.shape(node)) for node in tree.nodes)


def test_the_order_of_cliques_and_of_their_attributes_is_no_part_of_it(shape: GraphShape) -> None:
    generator = np.random.default_rng(0)
    tree = tree_of(shape)
    for _ in range(3):
        mixed = [tuple(generator.permutation(np.array(clique, dtype=object))) for clique in shape.cliques]
        order = generator.permutation(len(mixed))
        assert JunctionTree.of(shape.domain, [mixed[place] for place in order]) == tree
    assert JunctionTree.of(shape.domain, [*shape.cliques, *shape.cliques, ()]) == tree


def test_a_cycle_is_cut_into_triangles() -> None:
    tree = JunctionTree.of(
        Domain.of({"a": 2, "b": 9, "c": 2, "d": 9}), [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    )
    assert tree.nodes == (("a", "c", "d"), ("a", "c", "b"))
    assert tree.parents == (-1, 0)
    assert tree.separators == ((), ("a", "c"))
    assert tree.cells == 72


def test_attributes_in_no_clique_are_nodes_of_their_own() -> None:
    tree = JunctionTree.of(ABC, [("a", "c"), ()])
    assert tree.nodes == (("a", "c"), ("b",))
    assert tree.parents == (-1, -1)
    assert tree.separators == ((), ())


def test_a_domain_without_attributes_has_an_empty_tree() -> None:
    tree = JunctionTree.of(Domain((), ()), [()])
    assert tree.nodes == ()
    assert tree.cells == 0


def depth(tree: JunctionTree) -> int:
    depths: list[int] = []
    for parent in tree.parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return max(depths)


def test_trees_hang_from_their_centre() -> None:
    chain = long_chain(101, 3)
    tree = tree_of(chain)
    assert len(tree.nodes) == 99
    assert depth(tree) == 49
    assert tree.nodes[0] == ("x49", "x50", "x51")


def test_a_star_hangs_from_one_node() -> None:
    leaves = [f"x{place}" for place in range(20)]
    star = GraphShape(Domain.of({"hub": 2, **dict.fromkeys(leaves, 3)}), tuple(("hub", leaf) for leaf in leaves))
    assert depth(tree_of(star)) == 1


def test_a_thousand_attributes_in_a_chain() -> None:
    chain = long_chain(1000, 10)
    tree = tree_of(chain)
    assert tree.cells == 998 * 1000
    assert {frozenset(node) for node in tree.nodes} == {frozenset(clique) for clique in chain.cliques}
    assert all(set(tree.nodes[tree.node_of(clique)]) == set(clique) for clique in chain.cliques)


def test_a_long_ring_has_three_attributes_in_a_node() -> None:
    tree = tree_of(ring(60, 4))
    assert {len(node) for node in tree.nodes} == {3}
    assert tree.cells == 58 * 64


def test_cells_are_exact_however_many() -> None:
    names = tuple(f"x{place}" for place in range(80))
    domain = Domain(names, (7,) * 80)
    assert JunctionTree.of(domain, [names[:79], names[1:]]).cells == 2 * 7**79
    assert JunctionTree.of(domain, [names]).cells == 7**80


def test_node_of_refuses_what_no_node_holds() -> None:
    tree = JunctionTree.of(ABC, [("a", "b"), ("b", "c")])
    assert not tree.holds(("a", "c"))
    with pytest.raises(ValueError, match=r"no node of the junction tree contains \('a', 'c'\)"):
        tree.node_of(("a", "c"))
    with pytest.raises(ValueError, match="unknown attribute 'z'"):
        tree.holds(("z",))
    assert set(tree.nodes[tree.node_of(())]) == {"a", "b"}


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"clique \('a', 'z'\) names \['z'\]; want attributes of \['a', 'b', 'c'\]"):
        JunctionTree.of(ABC, [("a", "z")])


@pytest.mark.parametrize(
    ("nodes", "parents", "separators", "message"),
    [
        ([("a", "b"), ("b", "c")], [-1], [(), ("b",)], "differ in number"),
        ([("b", "c"), ("b", "a")], [1, -1], [("b",), ()], "want an earlier parent"),
        ([("a", "b"), ("b", "c")], [-1, 0], [(), ()], "want an earlier parent and a separator, or neither"),
        ([("a", "b"), ("c", "b")], [-1, 0], [(), ("b",)], "want the separator .* first"),
        ([("a", "b", "c"), ("b",)], [-1, 0], [(), ("b",)], "then at least one attribute"),
        ([("a", "b"), ("a", "b", "c")], [-1, 0], [(), ("a", "b")], "smaller than"),
        ([("a",), ("b", "c")], [-1, 0], [(), ("b",)], "want a separator inside"),
        ([("a", "b")], [-1], [()], "every attribute of the domain"),
        ([("a", "b"), ("b", "c")], [-1, -1], [(), ()], "exactly one node"),
    ],
)
def test_what_is_no_junction_tree_is_refused(
    nodes: list[Clique], parents: list[int], separators: list[Clique], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        JunctionTree(ABC, tuple(nodes), tuple(parents), tuple(separators))
