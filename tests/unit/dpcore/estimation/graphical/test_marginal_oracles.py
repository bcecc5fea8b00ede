"""The brute-force marginal oracle against exact arithmetic, record by record."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import SHAPES, GraphShape
from tests.support.marginal_oracles import BruteForce

Record = tuple[int, ...]


def powers_of_two(shape: GraphShape, seed: int) -> tuple[BruteForce, NDArray[np.int64], NDArray[np.float64]]:
    """The oracle, and potentials as whole numbers (-99 for -inf) and as multiples of log 2."""
    oracle = BruteForce(JunctionTree.of(shape.domain, shape.cliques), shape.cliques)
    generator = np.random.default_rng(seed)
    powers = np.where(generator.random(oracle.queries.size) < 0.15, -99, generator.integers(-6, 7, oracle.queries.size))
    return oracle, powers, np.where(powers == -99, -np.inf, powers * math.log(2))


def weights(oracle: BruteForce, powers: NDArray[np.int64]) -> dict[Record, Fraction]:
    """2 to the sum of the powers of every record: exact."""
    domain = oracle.tree.domain
    found = {}
    for record in product(*(range(size) for size in domain.sizes)):
        parts = []
        for clique, table in zip(oracle.queries.cliques, oracle.queries.split(powers), strict=True):
            parts.append(int(table[tuple(record[domain.index(name)] for name in clique)]))
        found[record] = Fraction(0) if -99 in parts else Fraction(2) ** sum(parts)
    return found


def marginal(oracle: BruteForce, chances: dict[Record, Fraction], names: Clique) -> NDArray[np.float64]:
    """Axes in the order of the names."""
    domain = oracle.tree.domain
    table = np.full(domain.shape(names), Fraction(0), dtype=object)
    for record, chance in chances.items():
        table[tuple(record[domain.index(name)] for name in names)] += chance
    return table.astype(np.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", SHAPES)
def test_equals_exact_arithmetic(case: str, seed: int) -> None:
    oracle, powers, potentials = powers_of_two(SHAPES[case], seed)
    exact = weights(oracle, powers)
    total = sum(exact.values())
    if total == 0:
        assert not oracle.marginals(potentials).any()
        assert oracle.log_partition == -np.inf
        return
    chances = {record: weight / total for record, weight in exact.items()}
    wanted = np.concatenate([marginal(oracle, chances, clique).ravel() for clique in oracle.queries.cliques])
    np.testing.assert_allclose(oracle.marginals(potentials), wanted, rtol=1e-12)
    assert oracle.log_partition == pytest.approx(math.log(total), rel=1e-12, abs=1e-12)
    joint = marginal(oracle, chances, oracle.tree.domain.names)
    np.testing.assert_allclose(oracle.joint(potentials), joint, rtol=1e-12)
    for node, separator, table in zip(
        oracle.tree.nodes, oracle.tree.separators, oracle.conditionals(potentials), strict=True
    ):
        rows = marginal(oracle, chances, node).reshape(oracle.tree.domain.size(separator), -1)
        sums = rows.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(table, np.where(sums > 0, rows / np.where(sums > 0, sums, 1), 0), rtol=1e-11)


def test_some_of_the_cases_exclude_every_record_and_most_do_not() -> None:
    possible = []
    for case in SHAPES:
        for seed in range(3):
            oracle, _, potentials = powers_of_two(SHAPES[case], seed)
            possible.append(oracle.joint(potentials).any())
    assert sum(possible) > 0.8 * len(possible)


def test_a_hand_made_example() -> None:
    shape = SHAPES["one attribute"]
    oracle = BruteForce(JunctionTree.of(shape.domain, shape.cliques), shape.cliques)
    found = oracle.marginals(np.array([800.0 + math.log(3), 800.0, -np.inf, -800.0]))
    np.testing.assert_allclose(found, [0.75, 0.25, 0, 0], rtol=1e-12)
    assert oracle.log_partition == pytest.approx(800 + math.log(4), rel=1e-15)


def test_no_cliques_stand_for_the_empty_clique() -> None:
    shape = SHAPES["no cliques"]
    oracle = BruteForce(JunctionTree.of(shape.domain, []), [])
    assert oracle.queries.cliques == ((),)
    np.testing.assert_allclose(oracle.marginals(np.array([2.5])), [1.0])
    assert oracle.log_partition == pytest.approx(2.5 + math.log(shape.domain.size()))
