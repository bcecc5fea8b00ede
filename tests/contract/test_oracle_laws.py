"""The laws of every oracle, against enumeration of all records. A new oracle is one row of ORACLES."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.best_response import BestResponseOracle
from dpcore.oracles.clauses import signed_clauses
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.protocol import Oracle, Status
from tests.support.oracle_cases import ALL_KINDS, KINDS, Problem, problem, worth

ORACLES: dict[str, Oracle] = {
    "enumerate": Enumeration(),
    "highs": Highs(),
    "highs, relaxation only": Highs(node_limit=0),
    "highs, one node": Highs(node_limit=1),
    "highs, tolerant": Highs(tolerance=0.2),
    "annealing": Annealing(),
    "annealing, one sweep": Annealing(sweeps=1),
    "best response": BestResponseOracle(),
    "best response, nothing tried one by one": BestResponseOracle(max_enumerated=1),
    "best response, no nodes": BestResponseOracle(max_enumerated=1, node_limit=0),
    "best response, tolerant": BestResponseOracle(tolerance=0.2, max_enumerated=1),
    "as dual_query asks for it": DualQuery().best_response_oracle(),
}
EXACT = ("enumerate", "highs", "best response", "best response, nothing tried one by one")
SEEDS = range(12)


@cache
def instance(kind: str, seed: int) -> tuple[Problem, int]:
    """A problem and its optimum."""
    case = problem(kind, seed)
    return case, Enumeration().respond(case.clauses, case.preferences).value


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_oracle_equals_enumeration(name: str, kind: str) -> None:
    for seed in range(25):  # Over the 8 kinds: 200 random instances.
        case, optimum = instance(kind, seed)
        best = ORACLES[name].respond(case.clauses, case.preferences)
        assert (best.value, best.bound, best.status) == (optimum, optimum, Status.OPTIMAL), (kind, seed)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_the_record_is_legal_and_has_the_value_that_is_claimed(name: str, kind: str) -> None:
    for seed in SEEDS:
        case, optimum = instance(kind, seed)
        best = ORACLES[name].respond(case.clauses, case.preferences)
        assert best.record.shape == (12,)
        assert best.record.dtype == np.bool_
        assert is_legal(case.clauses.view, best.record), (kind, seed)
        assert best.value == worth(case, best.record), (kind, seed)
        assert best.value <= optimum <= best.bound, (kind, seed)
        assert (best.status is Status.OPTIMAL) == (best.value == best.bound)


@pytest.mark.smoke(40)
@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_no_change_to_a_preferred_value_keeps_the_objective(name: str, kind: str) -> None:
    for seed in SEEDS:
        case, _ = instance(kind, seed)
        best = ORACLES[name].respond(case.clauses, case.preferences)
        for other in preferred_neighbours(case, best.record):
            assert worth(case, other) < best.value, (kind, seed)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_the_same_problem_gives_the_same_response(name: str, kind: str) -> None:
    case, _ = instance(kind, 3)
    first, again = (ORACLES[name].respond(case.clauses, case.preferences) for _ in range(2))
    assert np.array_equal(first.record, again.record)
    assert first.bound == again.bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_samples_that_cancel_leave_everything_to_the_preferences(name: str, kind: str) -> None:
    case = problem(kind, 5)
    cancelled = np.array([0, case.queries.size])
    best = ORACLES[name].respond(signed_clauses(case.queries, cancelled), case.preferences)
    assert (best.value, best.bound) == (1, 1)
    assert is_legal(case.clauses.view, best.record)
    for start, stop in case.clauses.view.groups:
        assert best.record[start:stop].argmax() == case.preferences[start:stop].argmax()
    if not case.clauses.view.groups:
        assert np.array_equal(best.record, case.preferences > 0)


def is_legal(view: BinaryView, record: np.ndarray) -> bool:
    return all(record[start:stop].sum() == 1 for start, stop in view.groups)


def preferred_neighbours(case: Problem, record: np.ndarray) -> list[np.ndarray]:
    """Records that differ in one group, or in one column of baskets, and there have a preferred value."""
    neighbours = []
    for start, stop in case.clauses.view.groups:
        current = start + int(record[start:stop].argmax())
        for column in range(start, stop):
            if case.preferences[column] > case.preferences[current]:
                other = record.copy()
                other[current], other[column] = False, True
                neighbours.append(other)
    if not case.clauses.view.groups:
        for column in np.flatnonzero(record != (case.preferences > 0)):
            other = record.copy()
            other[column] = not other[column]
            neighbours.append(other)
    return neighbours
