"""Signed sums of positive conjunctions, against inclusion and exclusion written out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.queries import Conjunctions
from dpcore.queries import lattice as lattice_module
from dpcore.queries.lattice import LARGEST_NEGATED, Lattice, needs_lattice
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from dpcore.queries.sorted_rows import SortedRows
from dpcore.testing.tiny_statistics import count_conjunctions

BASKETS = BinaryView(8)
TABLE = BinaryView.one_hot(Domain.of({"a": 3, "b": 2, "c": 3}))
DRAW = np.random.default_rng(0)
BITS = {
    BASKETS: DRAW.random((200, 8)) < 0.5,
    TABLE: np.concatenate([np.eye(size, dtype=bool)[DRAW.integers(0, size, 200)] for size in (3, 2, 3)], axis=1),
}


def queries_of(view: BinaryView, seed: int, orders: list[int], count: int = 30) -> Conjunctions:
    return random_mixed_conjunctions(view, count, orders, np.random.default_rng(seed), negate=True)


def by_definition(queries: Conjunctions) -> list[dict[frozenset[int], int]]:
    """For each query, the sign of each positive conjunction."""
    signed = []
    for columns, negated, order in zip(queries.columns, queries.negated, queries.orders, strict=True):
        literals = set(zip(columns[:order].tolist(), negated[:order].tolist(), strict=True))
        kept, removed = [c for c, n in literals if not n], [c for c, n in literals if n]
        subsets = [subset for size in range(len(removed) + 1) for subset in combinations(removed, size)]
        signed.append({frozenset([*kept, *subset]): (-1) ** len(subset) for subset in subsets})
    return signed


def member_rows(lattice: Lattice) -> list[tuple[int, ...]]:
    columns = zip(lattice.members.columns.tolist(), lattice.members.orders.tolist(), strict=True)
    return [tuple(row[:order]) for row, order in columns]


def exact_values(lattice: Lattice, bits: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.concatenate([count_conjunctions(lattice.members, bits), [len(bits), 0]]).astype(np.float64)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), view=st.sampled_from([BASKETS, TABLE]), top=st.integers(1, 3))
def test_signed_sums_of_exact_counts_are_the_exact_answers(seed: int, view: BinaryView, top: int) -> None:
    queries = queries_of(view, seed, list(range(1, top + 1)), 12)
    lattice = Lattice.of(queries)
    answers = lattice.signed_sums(exact_values(lattice, BITS[view]))
    assert answers.tolist() == count_conjunctions(queries, BITS[view]).tolist()


def test_the_members_are_those_of_the_definition_once_each() -> None:
    queries = queries_of(BASKETS, 3, [1, 2, 3])
    lattice = Lattice.of(queries)
    members = list(map(frozenset, member_rows(lattice)))
    wanted = by_definition(queries)
    assert sorted(map(sorted, members)) == sorted(map(sorted, {key for terms in wanted for key in terms if key}))
    assert (np.diff(lattice.members.orders) >= 0).all()
    named = [*members, frozenset(), None]
    for query, terms in enumerate(wanted):
        span = slice(lattice.starts[query], lattice.starts[query + 1])
        found = dict(zip((named[term] for term in lattice.terms[span]), lattice.signs[span], strict=True))
        assert found == terms
    assert lattice.needs_units


def test_a_subset_of_the_negated_literals_is_the_bit_mask_of_its_term() -> None:
    """The projection finds the terms of a cell by their masks."""
    lattice = Lattice.of(Conjunctions(BASKETS, np.array([[5, 2, 7]]), np.array([[True, False, True]])))
    members = member_rows(lattice)
    assert [members[term] for term in lattice.terms] == [(2,), (2, 5), (2, 7), (2, 5, 7)]
    assert lattice.signs.tolist() == [1, -1, -1, 1]


def test_parents_lack_one_literal() -> None:
    lattice = Lattice.of(queries_of(BASKETS, 5, [1, 3], 60))
    rows = member_rows(lattice)
    some = 0
    for member, row in enumerate(rows):
        for literal in range(lattice.members.order):
            parent = lattice.parents[member, literal]
            wanted = row[:literal] + row[literal + 1 :] if literal < len(row) else None
            assert (rows[parent] == wanted) if parent != lattice.nothing else (wanted not in rows)
            some += parent != lattice.nothing
    assert some > 20


def test_two_values_of_one_attribute_are_no_member() -> None:
    queries = Conjunctions(TABLE, np.array([[0, 1], [0, 3], [0, 1]]), np.array([[1, 1], [0, 0], [0, 0]], dtype=bool))
    lattice = Lattice.of(queries)
    assert lattice.members.columns[lattice.members.counted].tolist() == [0, 1, 0, 3]
    assert lattice.terms[-1] == lattice.nothing
    answers = lattice.signed_sums(exact_values(lattice, BITS[TABLE]))
    assert answers.tolist() == count_conjunctions(queries, BITS[TABLE]).tolist()
    with pytest.raises(ValueError, match="no row can satisfy a query without"):
        Lattice.of(queries.only(np.array([2])))


def test_sums_by_sign_and_without_signs() -> None:
    lattice = Lattice.of(Conjunctions(BASKETS, np.array([[0, 1], [2, 3]]), np.array([[False, True], [True, True]])))
    values = np.arange(lattice.members.size + 2, dtype=np.float64) + 1
    for query in range(2):
        terms = lattice.terms[lattice.starts[query] : lattice.starts[query + 1]]
        positive = [bool(bin(mask).count("1") % 2 == 0) for mask in range(len(terms))]
        assert lattice.plain_sums(values)[query] == values[terms].sum()
        assert lattice.sums_of_sign(values, 1)[query] == values[terms][positive].sum()
        assert lattice.sums_of_sign(values, -1)[query] == values[terms][~np.array(positive)].sum()


def test_what_grows_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Conjunctions(BASKETS, np.arange(LARGEST_NEGATED + 1)[None], np.ones((1, LARGEST_NEGATED + 1), dtype=bool))
    with pytest.raises(ValueError, match="7 negated literals; want at most 6"):
        Lattice.of(long)
    monkeypatch.setattr(lattice_module, "LARGEST_TERMS", 7)
    with pytest.raises(ValueError, match="signed sums of 8 positive conjunctions; want at most 7"):
        Lattice.of(Conjunctions(BASKETS, np.array([[0, 1, 2]]), np.ones((1, 3), dtype=bool)))


def test_only_positive_conjunctions_of_one_order_need_no_lattice() -> None:
    positive = Conjunctions(BASKETS, np.array([[0, 1], [2, 3]]), np.zeros((2, 2), dtype=bool))
    assert not needs_lattice(positive)
    assert needs_lattice(Conjunctions.joined([positive, Conjunctions.single_columns(BASKETS)]))
    assert needs_lattice(Conjunctions(BASKETS, positive.columns, np.array([[False, False], [False, True]])))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_sorted_rows_are_the_distinct_ones_and_find_them(rows: list[tuple[int, int]]) -> None:
    found, index = SortedRows.of(np.array(rows, dtype=np.int32), 5)
    assert found.rows.tolist() == [list(row) for row in sorted(set(rows))]
    assert found.rows[index].tolist() == [list(row) for row in rows]
    every = np.array([(a, b) for a in range(5) for b in range(5)], dtype=np.int32)
    wanted = {row: place for place, row in enumerate(sorted(set(rows)))}
    assert found.find(every).tolist() == [wanted.get(row, -1) for row in map(tuple, every.tolist())]
