"""Sampled queries as signed clauses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.clauses import signed_clauses
from dpcore.queries import Conjunctions
from tests.support.oracle_cases import KINDS, problem, satisfied_samples

VIEW = BinaryView(4)
QUERIES = Conjunctions(VIEW, np.array([[0, 1], [3, 1], [1, 0]]), np.array([[0, 0], [0, 1], [0, 0]], dtype=bool))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(KINDS)), bits=st.integers(0, 2**12 - 1))
def test_the_objective_counts_the_satisfied_samples_of_every_record(seed: int, kind: str, bits: int) -> None:
    case = problem(kind, seed)
    record = (bits >> np.arange(12)) % 2 == 1
    assert case.clauses.value(record[case.clauses.columns]) == satisfied_samples(case, record)


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
    assert cancelled.constant == cancelled.largest() == 1
    assert cancelled.blocks().tolist() == [0]


def test_the_largest_value_is_that_of_all_positive_clauses() -> None:
    clauses = signed_clauses(QUERIES, np.array([0, 0, 4]))
    assert (clauses.weights.sum(), clauses.constant, clauses.largest()) == (1, 1, 3)


@pytest.mark.parametrize(
    ("view", "bounds"),
    [(VIEW, [0, 1, 2, 3]), (BinaryView.one_hot(Domain.of({"a": 2, "b": 2})), [0, 2, 3])],
)
def test_blocks_are_what_occurs_of_each_group(view: BinaryView, bounds: list[int]) -> None:
    queries = Conjunctions(view, QUERIES.columns, QUERIES.negated)
    clauses = signed_clauses(queries, np.array([0, 1]))
    assert clauses.columns.tolist() == [0, 1, 3]
    assert clauses.blocks().tolist() == bounds
