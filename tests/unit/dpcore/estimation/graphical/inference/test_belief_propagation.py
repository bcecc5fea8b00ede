"""The compiled marginal oracle where its laws say nothing: by hand, sizes that pass one chunk, and what it keeps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import GraphShape, long_chain
from tests.support.marginal_oracles import BruteForce


def oracle_of(shape: GraphShape) -> Inference:
    return Inference(JunctionTree.of(shape.domain, shape.cliques), shape.cliques)


def test_two_attributes_by_hand() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    oracle = Inference(JunctionTree.of(domain, [("a", "b")]), [("b",), ("a", "b"), ()])
    potentials = np.log([1, 2, 1, 2, 3, 4, 5])
    weights = np.array([[1.0, 4], [3, 8]])
    joint = weights / 16
    found = oracle.marginals(potentials)
    np.testing.assert_allclose(found, [*joint.sum(axis=0), *joint.ravel(), 1], rtol=1e-14)
    assert oracle.log_partition == pytest.approx(np.log(16 * 5), rel=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_large_tables(seed: int) -> None:
    """Nodes and separators of thousands of cells, parts on every side of them."""
    domain = Domain.of({"a": 40, "b": 3, "c": 30, "d": 5, "e": 7})
    cliques = [("a", "b", "c"), ("c", "d"), ("a", "c", "e"), ("e",), ("a",), ("b", "c"), ("a", "e")]
    tree = JunctionTree.of(domain, cliques)
    oracle, slow = Inference(tree, cliques), BruteForce(tree, cliques)
    generator = np.random.default_rng(seed)
    potentials = np.where(
        generator.random(slow.queries.size) < 0.05, -np.inf, generator.normal(0, 3, slow.queries.size)
    )
    np.testing.assert_allclose(oracle.marginals(potentials), slow.marginals(potentials), rtol=1e-9, atol=1e-15)
    assert oracle.log_partition == pytest.approx(slow.log_partition, rel=1e-12)


WIDE = Domain.of({"a": 6, "b": 5, "c": 30, "d": 40})


@pytest.mark.parametrize(
    ("separator", "residual"),
    [("", "abcd"), ("", "a"), ("a", "bcd"), ("ab", "cd"), ("abc", "d"), ("bcd", "a"), ("cd", "b")],
)
@pytest.mark.parametrize("spread", [1.0, 60.0, 400.0])
def test_rows_of_many_blocks_and_blocks_of_many_rows(separator: str, residual: str, spread: float) -> None:
    """A node below another: rows that lie far from each other until the other makes up for it, or are all -inf."""
    domain = WIDE.project([*separator, *residual])
    node = domain.canonical((*separator, *residual))
    shared = domain.canonical(tuple(separator))
    whole = Domain((*domain.names, "z"), (*domain.sizes, 2))
    cliques = [node, (*shared, "z")]
    below = (*shared, *domain.canonical(tuple(residual)))
    tree = JunctionTree(whole, ((*shared, "z"), below), (-1, 0 if shared else -1), ((), shared))
    oracle = Inference(tree, cliques)
    generator = np.random.default_rng(7)
    potentials = generator.normal(size=oracle.queries.size)
    table, other = oracle.queries.split(potentials)
    between = [size if name in shared else 1 for name, size in zip(node, domain.shape(node), strict=True)]
    far = spread * generator.normal(size=between)
    table += far
    other -= far.reshape(*domain.shape(shared), 1)
    table[np.broadcast_to(generator.random(between) < 0.2, table.shape)] = -np.inf
    table[(0,) * table.ndim] = 3.0
    joint = table.reshape(*table.shape, 1) + other.reshape(*between, 2)
    logs = joint - joint.max()
    chances = np.exp(logs) / np.exp(logs).sum()
    found, beside = oracle.queries.split(oracle.marginals(potentials))
    np.testing.assert_allclose(found, chances.sum(axis=-1), rtol=1e-11, atol=1e-300)
    lacking = tuple(axis for axis, name in enumerate(node) if name not in shared)
    np.testing.assert_allclose(beside, chances.sum(axis=lacking), rtol=1e-11, atol=1e-300)
    assert oracle.log_partition == pytest.approx(joint.max() + np.log(np.exp(logs).sum()), rel=1e-13)
    for node_table in oracle.conditionals(potentials):
        sums = node_table.sum(axis=1)
        np.testing.assert_allclose(sums, np.round(sums), rtol=0, atol=1e-12)
        assert set(np.round(sums)) <= {0.0, 1.0}


def test_a_long_chain_against_matrix_products() -> None:
    """200 attributes: the marginals of a Markov chain, forwards and backwards."""
    shape = long_chain(200, 4, width=2)
    oracle = oracle_of(shape)
    generator = np.random.default_rng(1)
    potentials = generator.normal(0, 2, oracle.queries.size)
    factors = np.exp(potentials).reshape(199, 4, 4)
    ahead, behind = [np.ones(4)], [np.ones(4)]
    for factor in factors:
        ahead.append(ahead[-1] @ factor / ahead[-1].sum())
    for factor in factors[::-1]:
        behind.append(factor @ behind[-1] / behind[-1].sum())
    for place, table in enumerate(oracle.queries.split(oracle.marginals(potentials))):
        weights = ahead[place][:, None] * factors[place] * behind[198 - place]
        np.testing.assert_allclose(table, weights / weights.sum(), rtol=1e-10)


def test_marginals_of_probabilities_that_no_double_can_hold_beside_each_other() -> None:
    """Far potentials that cancel between neighbours leave the chain as it was."""
    shape = long_chain(50, 3, width=2)
    oracle = oracle_of(shape)
    potentials = np.random.default_rng(2).normal(size=oracle.queries.size)
    shifted = potentials.copy()
    tables = oracle.queries.split(shifted)
    for one, other in pairwise(tables):
        one += np.array([0.0, 3000.0, -5000.0])[None, :]
        other -= np.array([0.0, 3000.0, -5000.0])[:, None]
    np.testing.assert_allclose(oracle.marginals(shifted), oracle.marginals(potentials), rtol=1e-9)


def test_what_is_returned_is_kept_by_the_caller() -> None:
    oracle = oracle_of(long_chain(5, 3))
    generator = np.random.default_rng(3)
    one = oracle.marginals(generator.normal(size=oracle.queries.size))
    tables = oracle.conditionals(generator.normal(size=oracle.queries.size))
    copies = one.copy(), [table.copy() for table in tables]
    oracle.marginals(generator.normal(size=oracle.queries.size))
    np.testing.assert_array_equal(one, copies[0])
    for table, copy in zip(tables, copies[1], strict=True):
        np.testing.assert_array_equal(table, copy)


def test_without_cliques_there_is_the_empty_one() -> None:
    domain = Domain.of({"a": 3, "b": 2})
    oracle = Inference(JunctionTree.of(domain, []), [])
    assert oracle.queries.cliques == ((),)
    assert oracle.marginals(np.array([5.0])).tolist() == [1.0]
    assert oracle.log_partition == pytest.approx(5 + np.log(6))


def test_a_clique_outside_the_tree_and_potentials_of_another_shape_are_refused() -> None:
    tree = JunctionTree.of(Domain.of({"a": 3, "b": 2}), [])
    with pytest.raises(ValueError, match="no node"):
        Inference(tree, [("a", "b")])
    with pytest.raises(ValueError, match=r"potentials have shape \(4,\); want \(3,\)"):
        Inference(tree, [("a",)]).marginals(np.zeros(4))
