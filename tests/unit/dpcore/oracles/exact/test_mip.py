"""The HiGHS oracle beyond the laws that all oracles share."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.errors import EngineError
from dpcore.oracles.clauses import SignedClauses, signed_clauses
from dpcore.oracles.exact import mip
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.protocol import Status
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from tests.support.oracle_cases import problem

NO_PREFERENCE = np.full(40, -np.inf)


def hard_clauses() -> SignedClauses:
    """Three samples a column: the relaxation is far from integral."""
    generator = np.random.default_rng(1)
    queries = random_conjunctions(BinaryView(40), 400, 3, generator)
    return signed_clauses(queries, generator.integers(0, 800, size=120))


def test_more_nodes_close_the_gap_and_never_lose() -> None:
    responses = [Highs(node_limit=limit).respond(hard_clauses(), NO_PREFERENCE) for limit in (0, 1, 1000)]
    values, bounds = [best.value for best in responses], [best.bound for best in responses]
    assert values == sorted(values)
    assert bounds == sorted(bounds, reverse=True)
    assert [best.status for best in responses] == [Status.FEASIBLE, responses[1].status, Status.OPTIMAL]


def test_a_gap_within_the_tolerance_is_left_alone() -> None:
    relaxed, tolerant = (
        Highs(node_limit=limit, tolerance=tolerance).respond(hard_clauses(), NO_PREFERENCE)
        for limit, tolerance in ((0, 0.0), (1000, 0.5))
    )
    assert np.array_equal(relaxed.record, tolerant.record)
    assert (tolerant.bound - tolerant.value) / 120 < 0.5


def test_positive_samples_alone_are_all_satisfied_by_the_relaxation() -> None:
    generator = np.random.default_rng(2)
    queries = random_conjunctions(BinaryView(500), 2000, 3, generator)
    best = Highs(node_limit=0).respond(signed_clauses(queries, np.arange(300)), np.full(500, -1.0))
    assert (best.value, best.status) == (300, Status.OPTIMAL)
    assert set(np.flatnonzero(best.record)) <= set(queries.columns[:300].ravel())


def test_literals_of_one_group_that_exclude_each_other_are_never_satisfied() -> None:
    view = BinaryView(4, ((0, 2), (2, 4)))
    queries = Conjunctions(view, np.array([[0, 1], [0, 2]]), np.zeros((2, 2), dtype=bool))
    best = Highs().respond(signed_clauses(queries, np.array([0, 0, 0, 1])), np.zeros(4))
    assert (best.value, best.bound) == (1, 1)
    assert best.record.tolist() == [True, False, True, False]


def test_it_answers_after_another_user_of_highs_took_more_threads() -> None:
    """HiGHS keeps one scheduler a process and answers nothing, without an error, when the threads change."""
    other = highspy.Highs()
    other.silent()
    highspy.Highs.resetGlobalScheduler(True)
    other.setOptionValue("threads", 2)
    other.setOptionValue("parallel", "on")
    column = other.addVariable(lb=0, ub=1)
    other.maximize(column)
    case = problem("table", 1)
    best = Highs().respond(case.clauses, case.preferences)
    assert best.status is Status.OPTIMAL


def test_a_solver_that_fails_is_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mip, "_USABLE", ())
    case = problem("baskets", 1)
    with pytest.raises(EngineError, match="HiGHS ended with 'Optimal'; want a solution"):
        Highs().respond(case.clauses, case.preferences)
