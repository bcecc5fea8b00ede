"""Components, and the small ones tried pick by pick."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.oracles.exact.components import UNSOLVED, components, enumerate_components
from dpcore.oracles.exact.core import Core
from tests.support.core_cases import best_value, random_core


def linked(pairs: list[tuple[int, int]], blocks: int) -> Core:
    """Blocks of two options; each pair of them shares a clause."""
    literals = np.array([2 * block for pair in pairs for block in pair], dtype=np.int32)
    return Core(
        2 * np.arange(blocks + 1),
        np.arange(2 * blocks),
        np.zeros(2 * blocks, dtype=np.int64),
        2 * np.arange(len(pairs) + 1),
        literals,
        np.zeros(literals.size, dtype=np.bool_),
        np.ones(len(pairs), dtype=np.int64),
    )


def test_blocks_that_share_clauses_are_one_component() -> None:
    assert components(linked([(4, 0), (5, 2), (1, 5)], 6)).tolist() == [0, 1, 1, 2, 0, 1]
    assert components(linked([(3, 2), (2, 1), (1, 0)], 4)).tolist() == [0, 0, 0, 0]
    assert components(linked([], 3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(60))
def test_trying_every_pick_finds_the_optimum(seed: int) -> None:
    core = random_core(seed, blocks=2 + seed % 5, clauses=2 + seed % 9, largest_block=2 + seed % 3)
    picks = enumerate_components(core, components(core), 1 << 12)
    assert core.value(picks) == best_value(core)
    assert ((picks >= core.bounds[:-1]) & (picks < core.bounds[1:])).all()


def test_large_components_are_left() -> None:
    core = linked([(0, 1), (2, 3), (3, 4)], 5)
    labels = components(core)
    assert enumerate_components(core, labels, 8).tolist() == [0, 2, 4, 6, 8]
    assert enumerate_components(core, labels, 7).tolist() == [0, 2, UNSOLVED, UNSOLVED, UNSOLVED]
    assert enumerate_components(core, labels, 3).tolist() == [UNSOLVED] * 5
