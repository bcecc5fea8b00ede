"""Minimum cuts: the optimum wherever the signs allow one, and refused elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.oracles.exact.core import Core
from dpcore.oracles.exact.min_cut import min_cut
from tests.support.core_cases import best_value, random_core


def supermodular(seed: int) -> Core:
    """Positive clauses over values that are all 1 or all 0, and negative pairs; then random blocks change their 1."""
    core = random_core(seed, blocks=7, clauses=10, largest_block=2, least=2)
    generator = np.random.default_rng(seed)
    literals, negated = core.literals.copy(), core.negated.copy()
    weights = np.abs(core.weights)
    flipped = generator.random(7) < 0.5
    for clause in range(len(weights)):
        start, stop = core.clause_bounds[clause : clause + 2]
        blocks = generator.choice(7, size=stop - start, replace=False)
        want = np.full(stop - start, generator.random() < 0.5)
        if stop - start == 2 and generator.random() < 0.5:
            weights[clause] = -weights[clause]
            want[0] = not want[0]
        second = generator.random(stop - start) < 0.5  # Whether the literal names the second option.
        literals[start:stop] = 2 * blocks + second
        negated[start:stop] = (want != flipped[blocks]) == second
    return Core(core.bounds, core.columns, core.gains, core.clause_bounds, literals, negated, weights)


@pytest.mark.parametrize("seed", range(60))
def test_a_supermodular_core_is_solved(seed: int) -> None:
    core = supermodular(seed)
    picks = min_cut(core)
    assert picks is not None
    assert core.value(picks) == best_value(core)


def test_cores_are_solved_or_refused() -> None:
    refused = 0
    for seed in range(300):
        core = random_core(seed, blocks=5, clauses=3, largest_block=2)
        picks = min_cut(core)
        refused += picks is None
        assert picks is None or core.value(picks) == best_value(core), seed
    assert 0 < refused < 300


def pairs(weights: list[int]) -> Core:
    """A cycle of pairs over blocks of two options."""
    size = len(weights)
    literals = np.array([2 * block for first in range(size) for block in (first, (first + 1) % size)], dtype=np.int32)
    return Core(
        2 * np.arange(size + 1),
        np.arange(2 * size),
        np.zeros(2 * size, dtype=np.int64),
        2 * np.arange(size + 1),
        literals,
        np.zeros(2 * size, dtype=np.bool_),
        np.array(weights),
    )


def test_an_odd_cycle_of_negative_pairs_is_refused() -> None:
    assert min_cut(pairs([-1, -1, -1])) is None
    assert min_cut(pairs([-1, -1, -1, -1])) is not None
    assert min_cut(pairs([-1, 1, -1])) is not None


def test_blocks_of_three_options_and_negative_triples_are_refused() -> None:
    assert min_cut(random_core(1, largest_block=3, blocks=9)) is None
    triple = Core(
        np.array([0, 2, 4, 6]),
        np.arange(6),
        np.zeros(6, dtype=np.int64),
        np.array([0, 3]),
        np.array([0, 2, 4], dtype=np.int32),
        np.zeros(3, dtype=np.bool_),
        np.array([-1]),
    )
    assert min_cut(triple) is None
