"""What a tree of pairs implies, against the marginals of the whole distribution."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.reconstruction.dependence_tree import DependenceTree

NAMES = ("a", "b", "c", "d")
Real = NDArray[np.float64]


def chain(sizes: tuple[int, ...] = (2, 3, 4, 2), seed: int = 0) -> Real:
    """A chain a - b - c - d over all cells, in counts."""
    generator = np.random.default_rng(seed)
    joint = generator.dirichlet(np.ones(sizes[0]))
    for size, previous in zip(sizes[1:], sizes, strict=False):
        conditional = generator.dirichlet(np.full(size, 0.3), size=previous)
        joint = joint[..., None] * conditional
    return np.asarray(1000 * joint)


def marginal(joint: Real, names: tuple[str, ...]) -> Real:
    return np.asarray(joint.sum(axis=tuple(axis for axis, name in enumerate(NAMES) if name not in names)))


def test_a_chain_implies_all_its_pairs() -> None:
    joint = chain()
    singles = {name: marginal(joint, (name,)) for name in NAMES}
    pairs = {pair: marginal(joint, pair) for pair in combinations(NAMES, 2)}
    tree = DependenceTree(singles, pairs)
    assert tree.edges == {("a", "b"), ("b", "c"), ("c", "d")}
    implied = dict(tree.implied([*pairs, *((second, first) for first, second in pairs)]))
    assert len(implied) == 12
    for pair, table in pairs.items():
        assert np.allclose(implied[pair], table)
        assert np.allclose(implied[pair[1], pair[0]], table.T)


def test_attributes_without_a_pair_are_independent() -> None:
    joint = chain()
    singles = {name: marginal(joint, (name,)) for name in NAMES}
    tree = DependenceTree(singles, {("a", "b"): marginal(joint, ("a", "b"))})
    implied = dict(tree.implied([("a", "d"), ("a", "b")]))
    assert np.allclose(implied["a", "d"], np.multiply.outer(singles["a"], singles["d"]) / 1000)
    assert np.allclose(implied["a", "b"], marginal(joint, ("a", "b")))


def test_pairs_that_are_independent_up_to_rounding_are_not_on_the_tree() -> None:
    """Otherwise the last bit of a sum would decide which pairs are estimated from which expectation."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        singles = {name: generator.uniform(5.0, 30.0, 3) for name in "ab"}
        singles["b"] *= singles["a"].sum() / singles["b"].sum()
        table = np.multiply.outer(singles["a"], singles["b"]) / singles["a"].sum()
        assert not DependenceTree(singles, {("a", "b"): table}).edges


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_has_no_circle(seed: int) -> None:
    generator = np.random.default_rng(seed)
    pairs = {pair: generator.random((2, 2)) for pair in combinations(NAMES, 2)}
    singles = {name: np.ones(2) for name in NAMES}
    tree = DependenceTree(singles, pairs)
    assert len(tree.edges) == 3
    assert {name for pair in tree.edges for name in pair} == set(NAMES)
