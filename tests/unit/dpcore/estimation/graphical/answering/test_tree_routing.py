"""Where queries meet in a junction tree."""

from __future__ import annotations

from itertools import combinations

import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.contraction import mask_of
from dpcore.estimation.graphical.answering.tree_routing import TreeRoutes
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import SHAPES, long_chain


@pytest.mark.parametrize("name", SHAPES)
def test_queries_meet_in_the_middle(name: str) -> None:
    shape = SHAPES[name]
    tree = JunctionTree.of(shape.domain, shape.cliques)
    routes = TreeRoutes(tree)
    for order in (1, 2, 3):
        for clique in combinations(range(len(shape.domain.names)), order):
            if len({routes.roots[routes.homes[label]] for label in clique}) > 1:
                continue
            node, branches = routes.meeting(mask_of(clique))
            names = [shape.domain.names[label] for label in clique]
            if tree.holds(names):
                assert tree.sizes[node] == tree.sizes[tree.node_of(names)]
                assert branches == {}
            assert sum(branches.values()) == mask_of(clique) & ~routes.masks[node]
            assert all(2 * part.bit_count() <= order for part in branches.values())


def test_steps_lead_to_the_attribute_and_never_back() -> None:
    shape = long_chain(12, 2)
    tree = JunctionTree.of(shape.domain, shape.cliques)
    routes = TreeRoutes(tree)
    for start in range(len(tree.nodes)):
        for label in range(12):
            node, seen = start, {start}
            while not routes.masks[node] >> label & 1:
                (step, part), *others = routes.branches(node, 1 << label).items()
                assert (part, others) == (1 << label, [])
                assert step not in seen
                assert routes.separator(node, step) == routes.masks[node] & routes.masks[step]
                node = step
                seen.add(node)


def test_large_sides_behind_small_separators_are_worth_most() -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2, "d": 2, "e": 16, "f": 2})
    tree = JunctionTree(
        domain,
        (("a", "e"), ("a", "b"), ("b", "c"), ("e", "d"), ("e", "f")),
        (-1, 0, 1, 0, 0),
        ((), ("a",), ("b",), ("e",), ("e",)),
    )
    routes = TreeRoutes(tree)
    assert routes.contraction_priority(0, 1) == pytest.approx(2 / 2**0.5)  # b and c behind a.
    assert routes.contraction_priority(0, 3) == pytest.approx(1 / 4)  # d behind e.
    assert routes.contraction_priority(2, 1) == pytest.approx(4 / 2**0.5)  # a, d, e and f behind b.
    assert routes.contraction_priority(1, 0) == pytest.approx(3 / 2**0.5)  # d, e and f behind a.
