"""The dual bound: never below the optimum, never rising, and the relaxation's where that is tight."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.oracles.exact.core import Core
from dpcore.oracles.exact.dual_ascent import dual_ascent, initial_deltas
from dpcore.oracles.exact.mip import Highs
from tests.support.core_cases import best_value, random_core


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_and_falls(seed: int) -> None:
    core = random_core(seed, blocks=4 + seed % 3, clauses=4 + seed % 12, largest_block=2 + seed % 2, apart=True)
    optimum, bounds, deltas = best_value(core), [], initial_deltas(core)
    for sweeps in (0, 1, 5, 50):
        bound, picks, deltas = dual_ascent(core, deltas, sweeps)
        assert bound >= optimum
        assert core.value(picks) <= optimum
        bounds.append(bound)
    assert bounds == sorted(bounds, reverse=True)


def test_any_deltas_give_a_bound() -> None:
    generator = np.random.default_rng(0)
    for seed in range(40):
        core = random_core(seed)  # Here two literals of a clause may name one block.
        deltas = generator.normal(scale=6.0, size=len(core.literals))
        assert dual_ascent(core, deltas, 0)[0] >= best_value(core)


def test_it_comes_near_the_bound_of_the_linear_relaxation() -> None:
    """Coordinate ascent may stop above it; over these cores together by less than 2 %."""
    ours, simplex = 0, 0
    for seed in range(40):
        core = random_core(seed, blocks=12, clauses=30, largest_block=2, least=2)
        liked = np.zeros(core.as_clauses().view.columns)
        ours += dual_ascent(core, initial_deltas(core), 200)[0]
        simplex += Highs(node_limit=0).respond(core.as_clauses(), liked).bound
    assert simplex <= ours + 40  # HiGHS rounds down, as the ascent does: equal bounds may differ by 1.
    assert ours < 1.02 * simplex


def test_large_weights_do_not_overflow() -> None:
    core = random_core(3)
    factor = 1 << 52
    large = Core(
        core.bounds,
        core.columns,
        core.gains * factor,
        core.clause_bounds,
        core.literals,
        core.negated,
        core.weights * factor,
    )
    bound, picks, _ = dual_ascent(large, initial_deltas(large), 50)
    assert large.value(picks) <= best_value(core) * factor <= bound <= 2 * best_value(core) * factor
