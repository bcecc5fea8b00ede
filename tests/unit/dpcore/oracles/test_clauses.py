"""Sampled queries as signed clauses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.clauses import merge_clauses, signed_clauses
from dpcore.queries import Conjunctions
from tests.support.oracle_cases import KINDS, problem, with_gains, worth

VIEW = BinaryView(4)
QUERIES = Conjunctions(VIEW, np.array([[0, 1], [3, 1], [1, 0]]), np.array([[0, 0], [0, 1], [0, 0]], dtype=bool))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(KINDS)), bits=st.integers(0, 2**12 - 1))
def test_the_objective_counts_the_satisfied_samples_of_every_record(seed: int, kind: str, bits: int) -> None:
    case = problem(kind, seed)
    record = (bits >> np.arange(12)) % 2 == 1
    if "mixed" in kind:  # Short clauses are padded, which changes no legal record.
        for start, stop in case.queries.view.groups:
            record[start:stop] = np.arange(stop - start) == (bits >> start) % (stop - start)
    assert case.clauses.value(record[case.clauses.columns]) == worth(case, record)


def test_a_query_and_its_complement_cancel() -> None:
    clauses = signed_clauses(QUERIES, np.array([1, 1, 4, 4, 1]))
    assert clauses.weights.tolist() == [1]
    assert clauses.constant == 2
    assert clauses.columns.tolist() == [1, 3]
    assert clauses.literals.tolist() == [[0, 1]]
    assert clauses.negated.tolist() == [[True, False]]


def test_equal_conjunctions_are_one_clause_whatever_their_order() -> None:
    clauses = signed_clauses(QUERIES, np.array([0, 2, 2]))
    assert clauses.weights.tolist() == [3]
    cancelled = signed_clauses(QUERIES, np.array([0, 5]))
    assert cancelled.weights.size == cancelled.columns.size == 0
    assert cancelled.literals.shape == (0, 2)
    assert cancelled.constant == cancelled.upper_bound() == 1
    assert cancelled.blocks().tolist() == [0]


def test_the_largest_value_is_that_of_all_positive_clauses() -> None:
    clauses = signed_clauses(QUERIES, np.array([0, 0, 4]))
    assert (clauses.weights.sum(), clauses.constant, clauses.upper_bound()) == (1, 1, 3)


@pytest.mark.parametrize(
    ("view", "bounds"),
    [(VIEW, [0, 1, 2, 3]), (BinaryView.one_hot(Domain.of({"a": 2, "b": 2})), [0, 2, 3])],
)
def test_blocks_are_what_occurs_of_each_group(view: BinaryView, bounds: list[int]) -> None:
    queries = Conjunctions(view, QUERIES.columns, QUERIES.negated)
    clauses = signed_clauses(queries, np.array([0, 1]))
    assert clauses.columns.tolist() == [0, 1, 3]
    assert clauses.blocks().tolist() == bounds


def test_parts_are_merged_and_what_cancels_is_dropped() -> None:
    codes = np.array([[2, 5], [5, 2], [0, 2], [0, 2]], dtype=np.int32)
    gains = np.array([3, -3, 4, 1], dtype=np.int64)
    clauses = merge_clauses(VIEW, codes, np.array([1, 2, 4, -4]), 7, np.array([0, 0, 3, 1], dtype=np.int32), gains)
    assert clauses.columns.tolist() == [1, 2, 3]
    assert clauses.literals.tolist() == [[0, 1]]
    assert clauses.negated.tolist() == [[False, True]]
    assert (clauses.weights.tolist(), clauses.gains.tolist(), clauses.constant) == ([3], [1, 0, 4], 7)


def test_gains_add_up_and_bring_their_columns() -> None:
    clauses = signed_clauses(QUERIES, np.array([0, 0]))
    gained = with_gains(with_gains(clauses, np.array([0, -2, 0, 5])), np.array([0, 1, 0, 0]))
    assert gained.columns.tolist() == [0, 1, 3]
    assert gained.gains.tolist() == [0, -1, 5]
    assert gained.value(np.array([True, True, True])) == 2 - 1 + 5
    assert gained.upper_bound() == 2 + 5


def test_the_largest_value_takes_one_gain_of_each_group() -> None:
    view = BinaryView.one_hot(Domain.of({"a": 2, "b": 3}))
    clauses = signed_clauses(Conjunctions(view, np.array([[0, 2]]), np.zeros((1, 2), dtype=bool)), np.array([0]))
    assert with_gains(clauses, np.array([-4, -1, 0, 0, 0])).upper_bound() == 1 - 1
    assert with_gains(clauses, np.array([-4, 0, -7, -2, 0])).upper_bound() == 1  # An unnamed value is worth 0.
    assert with_gains(clauses, np.array([2, 3, 5, 1, 0])).upper_bound() == 1 + 3 + 5


def test_merging_agrees_with_a_dictionary() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 6, size=(5_000, 2)).astype(np.int32) * 2 + generator.integers(0, 2, (5_000, 2))
    codes[:, 1] += 12
    weights = generator.integers(-3, 4, 5_000)
    expected: dict[tuple[int, ...], int] = {}
    for row, weight in zip(codes.tolist(), weights.tolist(), strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + weight
    nothing = np.empty(0, dtype=np.int64)
    clauses = merge_clauses(BinaryView(12), codes.astype(np.int32), weights, 0, nothing.astype(np.int32), nothing)
    result = 2 * clauses.columns[clauses.literals] + clauses.negated
    assert {tuple(row): weight for row, weight in zip(result.tolist(), clauses.weights.tolist(), strict=True)} == {
        row: weight for row, weight in expected.items() if weight
    }
