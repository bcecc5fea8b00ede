"""The composed oracle beyond the laws that all oracles share."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.oracles import best_response
from dpcore.oracles.best_response import BestResponseOracle
from dpcore.oracles.clauses import SignedClauses, merge_clauses, signed_clauses
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.protocol import Status
from dpcore.queries.generation import random_conjunctions


def baskets(samples: int, columns: int, seed: int = 1) -> SignedClauses:
    generator = np.random.default_rng(seed)
    queries = random_conjunctions(BinaryView(columns), 4 * samples, 3, generator, negate=True)
    return signed_clauses(queries, generator.integers(0, 8 * samples, size=samples))


def table(samples: int) -> SignedClauses:
    generator = np.random.default_rng(2)
    view = BinaryView.one_hot(Domain.of({f"a{i}": 2 + i % 7 for i in range(20)}))
    queries = random_conjunctions(view, 4 * samples, 3, generator, negate=True)
    return signed_clauses(queries, generator.integers(0, 8 * samples, size=samples))


def neutral(clauses: SignedClauses) -> np.ndarray:
    return np.zeros(clauses.view.columns)


@pytest.mark.parametrize("samples", [100, 700, 900])
def test_with_fewer_samples_than_columns_it_is_optimal_without_a_simplex(samples: int) -> None:
    clauses = baskets(samples, 1_000)
    best = BestResponseOracle(node_limit=0).respond(clauses, neutral(clauses))
    assert best.status is Status.OPTIMAL
    assert best.value == Highs().respond(clauses, neutral(clauses)).value


def test_a_tolerance_saves_work_and_keeps_its_promise() -> None:
    clauses = table(300)
    tolerant = BestResponseOracle(tolerance=0.1).respond(clauses, neutral(clauses))
    exact = BestResponseOracle().respond(clauses, neutral(clauses))
    assert exact.status is Status.OPTIMAL
    assert tolerant.value <= exact.value <= tolerant.bound
    assert tolerant.bound - tolerant.value <= 0.1 * np.abs(clauses.weights).sum()


def test_without_nodes_neither_simplex_nor_branching_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the solver was asked")

    monkeypatch.setattr(best_response.Highs, "respond_from", refuse)
    clauses = baskets(200, 40)
    best = BestResponseOracle(node_limit=0).respond(clauses, neutral(clauses))
    assert best.status is Status.FEASIBLE
    assert best.bound < clauses.upper_bound()
    with pytest.raises(AssertionError, match="the solver was asked"):
        BestResponseOracle(node_limit=1).respond(clauses, neutral(clauses))


def test_annealing_takes_over_where_the_dual_leaves_a_gap() -> None:
    climbed, annealed = 0, 0
    for seed in range(10):
        clauses = baskets(200, 40, seed)
        climbed += BestResponseOracle(node_limit=0, tolerance=1.0).respond(clauses, neutral(clauses)).value
        annealed += BestResponseOracle(node_limit=0).respond(clauses, neutral(clauses)).value
    assert climbed + 10 < annealed


def test_positive_pairs_with_gains_are_a_minimum_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 linked columns, too many to try, and no search is needed."""

    def refuse(*_: object) -> None:
        raise AssertionError("a search was started")

    generator = np.random.default_rng(0)
    first = np.arange(300) % 100
    codes = np.stack([2 * first, 2 * ((first + generator.integers(1, 100, 300)) % 100)], axis=1).astype(np.int32)
    columns, gains = np.arange(100, dtype=np.int32), -generator.integers(1, 30, 100)
    clauses = merge_clauses(BinaryView(100), codes, generator.integers(1, 9, 300), 0, columns, gains)
    expected = Highs().respond(clauses, neutral(clauses))
    monkeypatch.setattr(BestResponseOracle, "_search", refuse)
    best = BestResponseOracle(max_enumerated=1).respond(clauses, neutral(clauses))
    assert 0 < best.value == best.bound == expected.value


def test_a_record_over_half_a_million_columns() -> None:
    generator = np.random.default_rng(0)
    view = BinaryView(500_000)
    queries = random_conjunctions(view, 20_000, 3, generator)
    clauses = signed_clauses(queries, generator.integers(0, 40_000, size=20_000))
    preferences = np.where(generator.random(500_000) < 0.01, 1.0, -1.0)
    best = BestResponseOracle(node_limit=0).respond(clauses, preferences)
    unused = np.ones(500_000, dtype=np.bool_)
    unused[clauses.columns] = False
    assert best.status is Status.OPTIMAL
    assert best.value == clauses.value(best.record[clauses.columns])
    assert np.array_equal(best.record[unused], preferences[unused] > 0)


@pytest.mark.parametrize(
    "settings",
    [{"tolerance": -0.1}, {"node_limit": -1}, {"sweeps": 0}, {"max_enumerated": 0}, {"tolerance": float("nan")}],
)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="want tolerance and node_limit >= 0, the others >= 1"):
        BestResponseOracle(**settings)  # type: ignore[arg-type]
