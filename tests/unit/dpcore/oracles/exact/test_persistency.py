"""Reductions keep the optimum, and find what they are said to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.clauses import SignedClauses, merge_clauses, signed_clauses
from dpcore.oracles.coordinate_ascent import NONE
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.exact.components import components, enumerate_components
from dpcore.oracles.exact.persistency import OPEN, Reduction, reduce_by_dominance
from dpcore.queries.generation import random_conjunctions
from tests.support.oracle_cases import ALL_KINDS, problem

BASKETS = BinaryView(6)
TABLE = BinaryView.one_hot(Domain.of({"a": 3, "b": 3, "c": 2}))


def objective(
    view: BinaryView, clauses: list[tuple[int, list[int]]], gains: dict[int, int] | None = None
) -> SignedClauses:
    """Clauses as (weight, literals): column + 1, negative where it is negated."""
    order = max(len(literals) for _, literals in clauses)
    assert all(len(literals) == order for _, literals in clauses)
    codes = np.array([[2 * (abs(x) - 1) + (x < 0) for x in literals] for _, literals in clauses], dtype=np.int32)
    named = gains or {}
    return merge_clauses(
        view,
        codes,
        np.array([weight for weight, _ in clauses]),
        0,
        np.array(list(named), dtype=np.int32),
        np.array(list(named.values()), dtype=np.int64),
    )


def chosen_columns(clauses: SignedClauses, reduction: Reduction) -> list[int]:
    """Column of each block's choice; NONE and OPEN as they are."""
    return [int(clauses.columns[choice]) if choice >= 0 else int(choice) for choice in reduction.chosen]


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 100_000), kind=st.sampled_from(sorted(ALL_KINDS)))
def test_an_optimum_of_the_core_completes_to_an_optimum(seed: int, kind: str) -> None:
    case = problem(kind, seed)
    reduction = reduce_by_dominance(case.clauses)
    core = reduction.core
    picks = enumerate_components(core, components(core), 1 << 13)
    choices = reduction.completed(picks)
    used = np.zeros(len(case.clauses.columns), dtype=np.bool_)
    used[choices[choices != NONE]] = True
    optimum = Enumeration().respond(case.clauses, case.preferences).value
    assert reduction.constant + core.value(picks) == case.clauses.value(used) == optimum
    assert (np.diff(core.bounds) >= 2).all()
    assert (np.diff(core.clause_bounds) >= 2).all()


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 100_000))
def test_clauses_that_name_a_group_several_times(seed: int) -> None:
    """Positive with positive, positive with negative, negative with negative: every one is legal in a query file."""
    generator = np.random.default_rng(seed)
    codes = [generator.choice(TABLE.columns, size=3, replace=False) * 2 + generator.integers(0, 2, 3) for _ in range(7)]
    weights = generator.integers(1, 5, 7) * generator.choice([-1, 1], 7)
    nothing = np.empty(0, dtype=np.int64)
    clauses = merge_clauses(TABLE, np.array(codes, dtype=np.int32), weights, 0, nothing.astype(np.int32), nothing)
    reduction = reduce_by_dominance(clauses)
    picks = enumerate_components(reduction.core, components(reduction.core), 1 << 13)
    optimum = Enumeration().respond(clauses, np.zeros(TABLE.columns)).value
    assert reduction.constant + reduction.core.value(picks) == optimum


def test_a_column_that_is_wanted_in_one_direction_takes_it_and_the_next_one_follows() -> None:
    # Column 1 wants a 1; then column 2 is wanted as 0 only, and column 3, in a clause that cannot hold, by nobody.
    clauses = objective(BASKETS, [(3, [1, -2]), (-2, [2, 3]), (1, [1, -3])])
    reduction = reduce_by_dominance(clauses)
    assert chosen_columns(clauses, reduction) == [0, NONE, NONE]
    assert (reduction.constant, reduction.core.blocks) == (4, 0)


def test_a_gain_outweighs_clauses_only_where_it_is_larger() -> None:
    clauses = [(3, [1, 2]), (-2, [1, 3]), (2, [-2, 3])]
    assert chosen_columns(*with_reduction(objective(BASKETS, clauses, {0: 2}))) == [0, 1, NONE]
    assert chosen_columns(*with_reduction(objective(BASKETS, clauses, {0: 1}))) == [OPEN, OPEN, OPEN]
    assert chosen_columns(*with_reduction(objective(BASKETS, clauses, {0: -3}))) == [NONE, NONE, 2]


def with_reduction(clauses: SignedClauses) -> tuple[SignedClauses, Reduction]:
    return clauses, reduce_by_dominance(clauses)


def test_in_a_group_unwanted_values_lose_against_one_that_no_clause_names() -> None:
    clauses = objective(TABLE, [(-2, [1, 4]), (1, [4, 7])])
    assert chosen_columns(*with_reduction(clauses)) == [NONE, 3, 6]


def test_in_a_group_a_value_with_a_larger_gain_than_another_can_reach_wins() -> None:
    clauses = objective(TABLE, [(2, [1, 4]), (-1, [2, 5]), (-3, [1, 8]), (1, [-4, 8])], {1: 3, 2: 5})
    reduction = reduce_by_dominance(clauses)
    assert chosen_columns(clauses, reduction)[0] == 2  # 5 against 3, and against at most 2.
    assert reduction.constant + 0 == 6
    assert reduction.core.blocks == 0


def test_two_wanted_values_of_a_group_stay_open_but_nothing_else_of_it() -> None:
    clauses = objective(TABLE, [(2, [1, 4]), (2, [2, 5]), (1, [1, 5])])
    reduction = reduce_by_dominance(clauses)
    assert chosen_columns(clauses, reduction) == [OPEN, OPEN]
    assert reduction.core.columns.tolist() == [0, 1, 2, 3]  # "None of them" is gone.


def test_literals_that_others_imply_do_not_keep_a_clause_long() -> None:
    """[a = 0, a != 1] is [a = 0]: a gain, which the pair next to it cannot outweigh."""
    clauses = objective(TABLE, [(4, [1, -2]), (-3, [1, 4]), (1, [-1, 4])])
    reduction = reduce_by_dominance(clauses)
    assert chosen_columns(clauses, reduction)[0] == 0
    assert reduction.constant == 4
    assert reduction.core.blocks == 0


@pytest.mark.parametrize("negate", [False, True])
def test_with_fewer_samples_than_columns_nearly_nothing_is_left(negate: bool) -> None:
    generator = np.random.default_rng(0)
    view = BinaryView(20_000)
    queries = random_conjunctions(view, 4_000, 3, generator, negate=negate)
    reduction = reduce_by_dominance(signed_clauses(queries, generator.integers(0, 8_000, size=3_000)))
    assert len(reduction.chosen) > 4_000
    assert reduction.core.blocks < 30


def test_the_gains_of_the_objective_are_left_alone() -> None:
    clauses = objective(BASKETS, [(3, [1, -2]), (-2, [2, 3])], {0: 1, 4: -2})
    before = clauses.gains.copy()
    reduce_by_dominance(clauses)
    assert np.array_equal(clauses.gains, before)
    frozen = replace(clauses, gains=before)
    frozen.gains.setflags(write=False)
    assert reduce_by_dominance(frozen).constant == reduce_by_dominance(clauses).constant
