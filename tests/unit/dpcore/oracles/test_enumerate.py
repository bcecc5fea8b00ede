"""Enumeration, which judges the other oracles, against the plainest search there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.oracles.clauses import signed_clauses
from dpcore.oracles.enumerate import MAX_RECORDS, Enumeration, record_count
from dpcore.queries import Conjunctions
from tests.support.oracle_cases import KINDS, problem, worth


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_it_finds_the_largest_number_of_satisfied_samples(kind: str, seed: int) -> None:
    case = problem(kind, seed)
    legal = [
        record
        for record in map(np.array, product((False, True), repeat=12))
        if all(record[start:stop].sum() == 1 for start, stop in case.clauses.view.groups)
    ]
    best = Enumeration().respond(case.clauses, case.preferences)
    assert best.value == max(worth(case, record) for record in legal)
    assert len(legal) == record_count(case.clauses.view)


def test_it_looks_beyond_the_first_block_of_records() -> None:
    view = BinaryView(16)
    queries = Conjunctions(view, np.array([[14, 15]]), np.zeros((1, 2), dtype=bool))
    best = Enumeration().respond(signed_clauses(queries, np.array([0])), np.full(16, -1.0))
    assert np.flatnonzero(best.record).tolist() == [14, 15]


@pytest.mark.parametrize("view", [BinaryView(21), BinaryView.one_hot(Domain.of(dict.fromkeys("abcdefg", 10)))])
def test_too_many_records_are_refused(view: BinaryView) -> None:
    assert record_count(view) > MAX_RECORDS
    with pytest.raises(ConfigError, match="want oracle 'reductions'"):
        Enumeration().check(view)
    Enumeration().check(BinaryView(20))
