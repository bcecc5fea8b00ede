"""Cores: their value, their parts, and the table objective that says the same."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.oracles.coordinate_ascent import NONE
from dpcore.oracles.exact.components import components
from dpcore.oracles.exact.core import Core
from tests.support.core_cases import all_picks, best_value, random_core, value_by_hand

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_value_and_table_count_gains_and_clauses_that_hold(seed: int) -> None:
    core = random_core(seed, blocks=4)
    table = core.as_clauses()
    for picks in all_picks(core):
        record = np.zeros(table.view.columns, dtype=np.bool_)
        record[picks] = True
        record[len(core.columns) :] = True
        assert core.value(picks) == value_by_hand(core, picks) == table.value(record)


def test_the_table_has_one_group_a_block_and_columns_that_always_hold() -> None:
    core = Core(
        np.array([0, 2, 4]),
        np.array([7, NONE, 8, 9]),
        np.zeros(4, dtype=np.int64),
        np.array([0, 1, 3]),
        np.array([0, 0, 2], dtype=np.int32),
        np.array([True, False, False]),
        np.array([5, 6]),
    )
    table = core.as_clauses()
    assert table.view.groups == ((0, 2), (2, 4), (4, 5))
    assert table.literals.tolist() == [[0, 4], [0, 2]]
    assert table.negated.tolist() == [[True, False], [False, False]]
    assert table.weights.tolist() == [5, 6]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_the_sum_over_components(seed: int) -> None:
    core = random_core(seed, blocks=7, clauses=5)
    labels = components(core)
    assert sum(best_value(core.part(labels == label)) for label in set(labels.tolist())) == best_value(core)


def test_a_part_keeps_names_and_signs() -> None:
    core = Core(
        np.array([0, 2, 4, 7]),
        np.array([7, NONE, 8, 9, 10, 11, NONE]),
        np.arange(7),
        np.array([0, 1, 3]),
        np.array([0, 4, 3], dtype=np.int32),
        np.array([True, False, True]),
        np.array([5, 6]),
    )
    part = core.part(np.array([False, True, True]))
    assert part.bounds.tolist() == [0, 2, 5]
    assert part.columns.tolist() == [8, 9, 10, 11, NONE]
    assert part.gains.tolist() == [2, 3, 4, 5, 6]
    assert (part.literals.tolist(), part.negated.tolist(), part.weights.tolist()) == ([2, 1], [False, True], [6])


def test_preferences_of_options() -> None:
    core = random_core(0, blocks=2, largest_block=2)
    named = Core(
        core.bounds,
        np.array([1, NONE, 0, 2]),
        core.gains,
        core.clause_bounds,
        core.literals,
        core.negated,
        core.weights,
    )
    liked = named.preferences(np.array([0.1, 0.2, 0.3]), np.array([-1.0, -2.0]))
    assert liked.tolist() == [0.2, -1.0, 0.1, 0.3]
