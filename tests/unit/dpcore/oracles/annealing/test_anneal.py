"""Annealing against the best of all records, with gains and perturbations of every column."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.annealing import anneal
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses, signed_clauses
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions

VIEWS = {
    "baskets": BinaryView(10),
    "table": BinaryView.one_hot(Domain.of({"a": 3, "b": 2, "c": 4, "d": 3, "e": 2})),
}
CASES = [(view, negate, seed) for view, negate, seed in product(VIEWS, (False, True), range(25))]
STEP = 16  # Of the grid of gains, a clause.


def all_records(view: BinaryView) -> NDArray[np.bool_]:
    if not view.groups:
        return np.array(list(product((False, True), repeat=view.columns)))
    rows = []
    for codes in product(*(range(start, stop) for start, stop in view.groups)):
        row = np.zeros(view.columns, dtype=np.bool_)
        row[list(codes)] = True
        rows.append(row)
    return np.array(rows)


def values(clauses: SignedClauses, perturbation: NDArray[np.int64], records: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Objective of each record, clause by clause."""
    result = records @ perturbation + records[:, clauses.columns] @ clauses.gains + clauses.constant
    for literals, negated, weight in zip(clauses.literals, clauses.negated, clauses.weights, strict=True):
        result = result + weight * (records[:, clauses.columns[literals]] != negated).all(axis=1)
    return result


def instance(view: BinaryView, negate: bool, seed: int) -> SignedClauses:
    """Clauses of weight STEP a sample, half of the instances with gains of their own."""
    generator = np.random.default_rng(seed)
    queries = random_conjunctions(view, 30, 2 + seed % 2, generator, negate=negate)
    clauses = signed_clauses(queries, generator.integers(0, 2 * queries.size, size=int(generator.integers(1, 80))))
    gains = generator.integers(-STEP, STEP + 1, size=len(clauses.columns)) * (seed % 4 // 2)
    return dataclasses.replace(clauses, weights=STEP * clauses.weights, gains=gains.astype(np.int64))


def test_it_is_optimal_on_99_per_cent_of_small_instances() -> None:
    missed = 0
    for name, negate, seed in CASES:
        view = VIEWS[name]
        clauses = instance(view, negate, seed)
        perturbations = np.random.default_rng(seed).integers(-3 * STEP, STEP, size=(4, view.columns))
        every = all_records(view)
        for perturbation, record in zip(
            perturbations, Annealing().respond_many(clauses, perturbations, seed), strict=True
        ):
            value = values(clauses, perturbation, record[None])[0]
            best = values(clauses, perturbation, every).max()
            assert value <= best
            missed += value < best
    assert missed <= len(CASES) * 4 // 100


@pytest.mark.parametrize("name", VIEWS)
def test_one_response_counts_gains_and_its_bound_holds(name: str) -> None:
    for seed in range(20):
        clauses = instance(VIEWS[name], True, seed)
        best = Annealing().respond(clauses, np.zeros(clauses.view.columns))
        zeros = np.zeros(clauses.view.columns, dtype=np.int64)
        assert best.value == values(clauses, zeros, best.record[None])[0]
        assert values(clauses, zeros, all_records(clauses.view)).max() <= best.bound


def test_records_are_legal_and_free_columns_follow_the_perturbation() -> None:
    view = VIEWS["table"]
    one = Conjunctions(view, np.array([[0, 5]], dtype=np.int32), np.zeros((1, 2), dtype=np.bool_))
    clauses = signed_clauses(one, np.array([0, 0, 0]))
    perturbations = np.random.default_rng(0).integers(-9, 0, size=(50, view.columns))
    records = Annealing(5).respond_many(clauses, perturbations, 1)
    for start, stop in view.groups:
        assert (records[:, start:stop].sum(axis=1) == 1).all()
    for start, stop in view.groups[3:]:  # Groups that no clause names.
        assert np.array_equal(records[:, start:stop].argmax(axis=1), perturbations[:, start:stop].argmax(axis=1))
    taken = records[:, 5:9].argmax(axis=1)  # A group of which one column is named: it or the best of the others.
    assert all(code in (0, 1 + row[6:9].argmax()) for code, row in zip(taken, perturbations, strict=True))
    items = BinaryView(4)
    pair = Conjunctions(items, np.array([[0, 1]], dtype=np.int32), np.zeros((1, 2), dtype=np.bool_))
    result = Annealing(5).respond_many(signed_clauses(pair, np.array([0])), np.array([[0, 0, 1, -1]]), 0)
    assert result.tolist() == [[True, True, True, False]]


def test_a_clause_that_no_single_change_reaches_is_satisfied() -> None:
    """Three columns that cost 3 each and pay 10 together: at low temperatures only the move of a whole clause pays."""
    view = BinaryView(3)
    triple = Conjunctions(view, np.array([[0, 1, 2]], dtype=np.int32), np.zeros((1, 3), dtype=np.bool_))
    clauses = dataclasses.replace(signed_clauses(triple, np.array([0])), weights=np.array([10]))
    result = Annealing(1).respond_many(clauses, np.full((20, 3), -3), 0)
    assert result.all()


def test_nothing_to_satisfy() -> None:
    view = VIEWS["baskets"]
    queries = random_conjunctions(view, 30, 2, np.random.default_rng(0), negate=False)
    clauses = signed_clauses(queries, np.array([0, queries.size]))
    perturbations = np.array([[1, -1] * 5])
    assert np.array_equal(Annealing().respond_many(clauses, perturbations, 0), perturbations > 0)
    gains_alone = SignedClauses(
        view,
        np.array([2, 3], dtype=np.int32),
        np.empty((0, 1), dtype=np.int32),
        np.empty((0, 1), dtype=np.bool_),
        np.empty(0, dtype=np.int64),
        0,
        np.array([5, -5]),
    )
    assert np.flatnonzero(Annealing().respond_many(gains_alone, np.zeros((1, 10), np.int64), 0)[0]).tolist() == [2]


def test_threads_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clauses = instance(VIEWS["table"], False, 7)
    perturbations = np.random.default_rng(7).integers(-40, 0, size=(9, clauses.view.columns))
    together = Annealing(3).respond_many(clauses, perturbations, 11)
    monkeypatch.setattr(anneal, "_THREADS", 4)
    assert np.array_equal(together, Annealing(3).respond_many(clauses, perturbations, 11))
    monkeypatch.setattr(anneal, "_THREADS", 1)
    assert np.array_equal(together, Annealing(3).respond_many(clauses, perturbations, 11))


def test_restarts_keep_the_best() -> None:
    improved = 0
    for seed in range(20):
        clauses = instance(VIEWS["baskets"], False, seed)
        perturbation = np.random.default_rng(seed).integers(-3 * STEP, STEP, size=(1, 10))
        result = [
            values(clauses, perturbation[0], Annealing(1, restarts).respond_many(clauses, perturbation, 0))[0]
            for restarts in (1, 8)
        ]
        assert result[0] <= result[1]
        improved += result[0] < result[1]
    assert improved
    with pytest.raises(ValueError, match="want both >= 1"):
        Annealing(0)
