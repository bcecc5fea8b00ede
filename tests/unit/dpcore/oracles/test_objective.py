"""The game of every query class: its objective and its hits against queries that are judged one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.objective import game_of
from dpcore.oracles.pad_clauses import pad_clauses
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Parities
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.tiny_statistics import one_hot_matrix

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 1, "d": 4})
TABLE = BinaryView.one_hot(DOMAIN)
ITEMS = BinaryView(6)
SIZES = [range(size) for size in DOMAIN.sizes]
ROWS = one_hot_matrix(DOMAIN, np.array(list(product(*SIZES))))
BASKETS = np.array(list(product([False, True], repeat=6)))


def parities(view: BinaryView, orders: list[int], seed: int) -> Parities:
    draw = np.random.default_rng(seed)
    return Parities.of_sets(view, [draw.choice(view.columns, order, replace=False) for order in orders])


CASES: dict[str, tuple[CountingQueries, NDArray[np.bool_]]] = {
    "conjunctions": (random_conjunctions(ITEMS, 20, 2, np.random.default_rng(0), negate=True), BASKETS),
    "one order": (Marginals(DOMAIN, (("a", "b"), ("b", "d"))), ROWS),
    "one attribute each": (Marginals(DOMAIN, (("a",), ("c",))), ROWS),
    "mixed orders": (Marginals(DOMAIN, (("a", "b", "d"), ("d",), ("b", "c"), (), ("a",), ("c",), ("a", "d"))), ROWS),
    "all attributes and one": (Marginals(DOMAIN, (("a", "b", "c", "d"), ("c",), ("b", "c"), ("b",))), ROWS),
    "the number of rows": (Marginals(DOMAIN, ((),)), ROWS),
    "parities of one": (parities(ITEMS, [1] * 6, 1), BASKETS),
    "parities of two": (parities(ITEMS, [2] * 9, 2), BASKETS),
    "parities of three": (parities(ITEMS, [3] * 15, 3), BASKETS),
    "parities of all orders": (parities(ITEMS, [1, 2, 3] * 6, 4), BASKETS),
    "parities of one-hot columns": (parities(TABLE, [1, 2, 3] * 12, 5), ROWS),
}
every_class = pytest.mark.parametrize("name", CASES)


def holds(queries: CountingQueries, records: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each record satisfies each query, bool [records, m], straight from what the queries mean."""
    if isinstance(queries, Conjunctions):
        pairs = zip(queries.columns, queries.negated, strict=True)
        return np.stack([(records[:, columns] != negated).all(axis=1) for columns, negated in pairs], axis=1)
    if isinstance(queries, Parities):
        return np.stack([records[:, row[row >= 0]].sum(axis=1) % 2 == 0 for row in queries.columns], axis=1)
    starts = dict(zip(DOMAIN.names, (start for start, _ in TABLE.groups), strict=True))
    cells = []
    for clique in queries.cliques:
        for cell in product(*(range(size) for size in DOMAIN.shape(clique))):
            expected = [starts[name] + code for name, code in zip(clique, cell, strict=True)]
            cells.append(records[:, expected].all(axis=1))
    return np.stack(cells, axis=1)


def values(clauses: SignedClauses, records: NDArray[np.bool_]) -> list[int]:
    return [clauses.value(record[clauses.columns]) for record in records]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), samples=st.integers(1, 60))
@every_class
def test_the_objective_counts_what_every_record_satisfies(name: str, seed: int, samples: int) -> None:
    queries, records = CASES[name]
    game = game_of(queries)
    drawn = np.random.default_rng(seed).integers(0, 2 * game.size, samples)
    satisfied = holds(queries, records)
    expected = np.concatenate([satisfied, ~satisfied], axis=1)[:, drawn].sum(axis=1)
    clauses = game.objective(drawn)
    assert values(clauses, records) == expected.tolist()
    assert clauses.upper_bound() >= expected.max()
    assert (clauses.weights != 0).all()
    assert set(clauses.columns) == {*clauses.columns[clauses.literals].ravel(), *clauses.columns[clauses.gains != 0]}


@every_class
def test_hits_are_the_queries_that_a_record_satisfies(name: str) -> None:
    queries, records = CASES[name]
    game = game_of(queries)
    assert (game.size, game.view.columns) == (queries.size, records.shape[1])
    for record, satisfied in zip(records, holds(queries, records), strict=True):
        hits = np.arange(game.size, dtype=np.int32)
        game.add_satisfied(hits, record)
        assert np.array_equal(hits - np.arange(game.size), satisfied)


@every_class
def test_queries_and_their_complements_cancel(name: str) -> None:
    queries, records = CASES[name]
    size = queries.size
    clauses = game_of(queries).objective(np.arange(2 * size))
    assert clauses.columns.size == clauses.weights.size == 0
    assert values(clauses, records[:1]) == [size]


@pytest.mark.parametrize(("sample", "negations"), [(0, 0), (1, 1)])
def test_parities_of_three_are_four_clauses_to_avoid(sample: int, negations: int) -> None:
    """For an even number the odd ones, whose negations are even in number; for the complement the others."""
    clauses = game_of(Parities.of_sets(ITEMS, [[4, 0, 2]])).objective(np.array([sample] * 2))
    assert clauses.weights.tolist() == [-2] * 4
    assert (clauses.negated.sum(axis=1) % 2 == negations).all()
    assert (clauses.constant, clauses.upper_bound(), clauses.gains.any()) == (2, 2, False)


def test_no_bound_claims_more_than_the_samples() -> None:
    queries = CASES["parities of three"][0]
    drawn = np.random.default_rng(3).integers(0, 2 * queries.size, 50)
    assert game_of(queries).objective(drawn).upper_bound() <= 50


def test_what_a_group_cannot_hold_is_no_clause() -> None:
    """Two columns of one attribute are never 1 together."""
    clauses = game_of(Parities.of_sets(TABLE, [[0, 1], [0, 1, 4]])).objective(np.array([0, 1]))
    expected = clauses.columns[clauses.literals].tolist()
    positive = [
        {c for c, sign in zip(*row, strict=True) if not sign} for row in zip(expected, clauses.negated, strict=True)
    ]
    assert sorted(map(sorted, positive)) == [[0], [1], [4]]


def test_a_clause_of_a_table_grows_by_what_its_group_excludes() -> None:
    codes, weights = pad_clauses(TABLE, np.array([[0], [2 * 5]], dtype=np.int32), np.array([7, 9]), 2)
    assert sorted(map(tuple, codes[codes[:, 0] == 0].tolist())) == [(0, 2 * 1 + 1)]
    assert sorted(weights.tolist()) == [7, 9, 9]  # Column 5 is alone in its group: that clause is split.


def test_a_clause_of_items_is_split_on_another_column() -> None:
    codes, weights = pad_clauses(ITEMS, np.array([[0, 3], [7, 8]], dtype=np.int32), np.array([1, -1]), 4)
    assert codes.shape == (8, 4)
    assert weights.tolist().count(1) == weights.tolist().count(-1) == 4
    assert all(len(set(row >> 1)) == 4 for row in codes)
