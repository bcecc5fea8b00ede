"""Coordinate ascent: free columns and ties by preference, groups kept."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.oracles.clauses import signed_clauses
from dpcore.oracles.coordinate_ascent import NONE, blocks_of, improved_record, preferred_record
from dpcore.queries import Conjunctions
from tests.support.oracle_cases import KINDS, problem, worth

GROUPS = BinaryView(5, ((0, 2), (2, 5)))


def one_query(view: BinaryView, column: int) -> Conjunctions:
    return Conjunctions(view, np.array([[column]]), np.array([[False]]))


def test_columns_that_no_clause_names_follow_the_preferences() -> None:
    clauses = signed_clauses(one_query(BinaryView(4), 2), np.array([0]))
    preferences = np.array([0.5, -0.5, -9.0, 0.0])
    used, record = improved_record(clauses, blocks_of(clauses, preferences), np.array([NONE]), preferences)
    assert used.tolist() == [True]
    assert record.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("sample", "preferences", "chosen"),
    [
        (0, [0, 0, -9, 3, 5], 2),  # The objective wants column 2, whatever is preferred.
        (1, [0, 0, 9, 3, 5], 4),  # It wants any other: the best of those that no clause names.
        (1, [0, 0, 9, 5, 5], 3),  # The first of equals.
        (1, [0, 0, 9, -np.inf, -np.inf], 3),
    ],
)
def test_a_group_takes_its_preferred_value_among_the_best(sample: int, preferences: list[float], chosen: int) -> None:
    clauses = signed_clauses(one_query(GROUPS, 2), np.array([sample]))
    liked = np.array(preferences, dtype=np.float64)
    _, record = improved_record(clauses, blocks_of(clauses, liked), np.array([0]), liked)
    assert np.flatnonzero(record).tolist() == [0, chosen]


def test_a_group_that_occurs_in_full_has_no_other_value() -> None:
    queries = Conjunctions(GROUPS, np.array([[0, 2], [1, 3]]), np.zeros((2, 2), dtype=bool))
    clauses = signed_clauses(queries, np.array([0, 1]))
    blocks = blocks_of(clauses, np.zeros(5))
    assert blocks.none_allowed.tolist() == [False, True]
    assert blocks.spare.tolist() == [NONE, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_the_ascent_never_lowers_the_objective(kind: str) -> None:
    for seed in range(20):
        case = problem(kind, seed)
        blocks = blocks_of(case.clauses, case.preferences)
        start = np.random.default_rng(seed).integers(blocks.bounds[:-1], blocks.bounds[1:])
        used = np.zeros(len(case.clauses.columns), dtype=np.bool_)
        used[start] = True
        settled_used, record = improved_record(case.clauses, blocks, start, case.preferences)
        assert case.clauses.value(settled_used) >= case.clauses.value(used)
        assert case.clauses.value(settled_used) == worth(case, record)
        assert np.array_equal(record[case.clauses.columns], settled_used)


def test_preferences_alone_make_a_legal_record() -> None:
    assert preferred_record(GROUPS, np.array([1.0, 2.0, -1.0, -np.inf, -3.0])).tolist() == [0, 1, 1, 0, 0]
    assert preferred_record(BinaryView(3), np.array([1.0, 0.0, -1.0])).tolist() == [1, 0, 0]
