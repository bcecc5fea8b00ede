"""The reference of exact inference against the table of all records, and the package's own inference against it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.reference import clique_marginals, junction_tree, maximal_cliques
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import SHAPES, GraphShape, random_shape

Table = NDArray[np.float64]
CASES = {**SHAPES, **{f"random {seed}": random_shape(seed) for seed in range(12)}}


def drawn(shape: GraphShape, generator: Generator, zeros: float) -> list[tuple[Clique, Table]]:
    """Log-potentials of each clique. zeros: Share of cells that are excluded."""
    potentials = []
    for clique in map(shape.domain.canonical, shape.cliques):
        table = generator.normal(0, 2, shape.domain.shape(clique))
        table[generator.random(table.shape) < zeros] = -np.inf
        potentials.append((clique, table))
    return potentials


def joint(domain: Domain, potentials: list[tuple[Clique, Table]]) -> Table:
    """exp of the sum of all log-potentials for every record, by ``np.einsum``."""
    operands: list[object] = [np.ones(domain.sizes), list(range(len(domain.names)))]
    for clique, table in potentials:
        operands += [np.exp(table), list(domain.axes(clique))]
    return np.asarray(np.einsum(*operands, list(range(len(domain.names)))))


def order_of(domain: Domain, generator: Generator) -> list[str]:
    return [domain.names[axis] for axis in generator.permutation(len(domain.names))]


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("case", CASES)
def test_marginals_are_those_of_the_joint_table_in_any_order_of_elimination(case: str, zeros: float) -> None:
    shape, generator = CASES[case], np.random.default_rng(1)
    potentials = drawn(shape, generator, zeros)
    weights = joint(shape.domain, potentials)
    for _ in range(3):
        marginals, log_partition = clique_marginals(shape.domain, potentials, order_of(shape.domain, generator))
        assert len(marginals) == len(potentials)
        if not weights.any():
            assert log_partition == -np.inf
            assert not any(table.any() for table in marginals)
            continue
        assert log_partition == pytest.approx(np.log(weights.sum()), rel=1e-12, abs=1e-12)
        for (clique, _), table in zip(potentials, marginals, strict=True):
            outside = tuple(axis for axis, name in enumerate(shape.domain.names) if name not in clique)
            np.testing.assert_allclose(table, weights.sum(axis=outside) / weights.sum(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(8))
def test_the_compiled_inference_has_the_same_marginals(seed: int, zeros: float) -> None:
    """Of models whose table of all records, 3^25 cells and more, nobody could sum."""
    generator = np.random.default_rng(seed)
    names = [f"x{place}" for place in range(25 + seed)]
    domain = Domain.of(dict.fromkeys(names, 3))
    # Each attribute joins one or two of the four before it: triangulated cliques stay small.
    cliques = [(names[0],)]
    for place in range(1, len(names)):
        near = names[max(0, place - 4) : place]
        chosen = generator.choice(near, size=min(len(near), int(generator.integers(1, 3))), replace=False)
        cliques.append((*chosen.tolist(), names[place]))
    potentials = drawn(GraphShape(domain, tuple(cliques)), generator, zeros)
    marginals, log_partition = clique_marginals(domain, potentials, names)
    oracle = Inference(JunctionTree.of(domain, cliques), [clique for clique, _ in potentials])
    found = oracle.marginals(np.concatenate([table.ravel() for _, table in potentials]))
    np.testing.assert_allclose(found, np.concatenate([table.ravel() for table in marginals]), rtol=1e-9, atol=1e-13)
    assert oracle.log_partition == pytest.approx(log_partition, rel=1e-12)


def test_a_cycle_gets_the_chord_that_its_order_adds() -> None:
    ring = [{0, 1}, {1, 2}, {2, 3}, {0, 3}]
    assert set(maximal_cliques(ring, [0, 1, 2, 3])) == {frozenset({0, 1, 3}), frozenset({1, 2, 3})}
    assert set(maximal_cliques(ring, [1, 0, 2, 3])) == {frozenset({0, 1, 2}), frozenset({0, 2, 3})}


@pytest.mark.parametrize("seed", range(20))
def test_the_nodes_of_an_attribute_are_connected(seed: int) -> None:
    """Running intersection: every attribute is new to exactly one node, in the order of the links."""
    shape, generator = random_shape(seed, attributes=9, cliques=9), np.random.default_rng(seed)
    axes = range(len(shape.domain.names))
    cliques = [set(shape.domain.axes(clique)) for clique in shape.cliques]
    nodes = maximal_cliques(cliques, generator.permutation(len(axes)).tolist())
    assert all(any(clique <= node for node in nodes) for clique in cliques)
    assert not any(one < other for one in nodes for other in nodes)
    residuals = [sorted(nodes[0])]
    linked = {0}
    for child, parent in junction_tree(nodes):
        assert parent in linked
        linked.add(child)
        residuals.append(sorted(nodes[child] - nodes[parent]))
    assert len(linked) == len(nodes)
    assert sorted(axis for residual in residuals for axis in residual) == list(axes)
