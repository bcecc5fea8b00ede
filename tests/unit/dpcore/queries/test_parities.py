"""Parities as values, and conjunctions made of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.queries import Conjunctions, Parities
from dpcore.queries.generation import all_parities, random_conjunctions, random_parities
from dpcore.testing.tiny_statistics import count_conjunctions, count_parities, one_hot_matrix
from tests.support.parity_reduction import conjunctions_from_parities, parities_for

ITEMS = BinaryView(7)
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 1, "d": 2})
TABLE = BinaryView.one_hot(DOMAIN)
BASKETS = np.random.default_rng(0).random((40, 7)) < 0.4
ROWS = one_hot_matrix(DOMAIN, np.random.default_rng(1).integers(0, DOMAIN.sizes, (50, 4)))
RECORDS = [(ITEMS, BASKETS), (TABLE, ROWS)]


def test_columns_are_sorted_and_shorter_rows_are_filled() -> None:
    queries = Parities.of_sets(ITEMS, [[4, 0, 2], [6], [3, 1]])
    assert queries.columns.tolist() == [[0, 2, 4], [6, -1, -1], [1, 3, -1]]
    assert queries.orders.tolist() == [3, 1, 2]
    assert queries.description == "3 parities of at most 3"
    again = Parities(ITEMS, np.array([[4, 2, 0], [-1, 6, -1], [1, -1, 3]]))
    assert again.digest() == queries.digest()
    with pytest.raises(ValueError, match="read-only"):
        queries.columns[0, 0] = 1


DIFFERENT = [
    Parities.of_sets(ITEMS, [[0, 1]]),
    Parities.of_sets(ITEMS, [[0, 2]]),
    Parities.of_sets(ITEMS, [[0], [1]]),
    Parities.of_sets(ITEMS, [[1], [0]]),
    Parities.of_sets(BinaryView(8), [[0, 1]]),
    Parities.of_sets(BinaryView(7, ((0, 3), (3, 7))), [[0, 1]]),
]


def test_different_parities_have_different_digests() -> None:
    conjunction = Conjunctions(ITEMS, np.array([[0, 1]]), np.zeros((1, 2)))
    digests = {queries.digest() for queries in [*DIFFERENT, conjunction]}
    assert len(digests) == len(DIFFERENT) + 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (np.array([[0, 0]]), "names a column twice"),
        (np.array([[1, -1], [-1, -1]]), "names no column"),
        (np.array([[7]]), "outside 0..6"),
        (np.array([[-2]]), "outside 0..6"),
        (np.array([0, 1]), "want a non-empty shape"),
        (np.empty((0, 2)), "want a non-empty shape"),
        (np.array([[0, 1, 2, 3]]), "k <= 3"),
    ],
)
def test_bad_parities_are_refused(columns: NDArray[np.int32], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parities(ITEMS, columns)


def sets_of(queries: Parities) -> list[tuple[int, ...]]:
    return [tuple(row[row >= 0].tolist()) for row in queries.columns]


def wanted_sets(view: BinaryView, columns: Sequence[int], order: int) -> list[tuple[int, ...]]:
    groups = view.group_of_column()
    sets = (chosen for size in range(1, order + 1) for chosen in combinations(columns, size))
    return [chosen for chosen in sets if len({groups[column] for column in chosen}) == len(chosen)]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_all_parities_are_every_set_of_different_groups(order: int) -> None:
    assert sets_of(all_parities(ITEMS, order)) == wanted_sets(ITEMS, range(7), order)
    telling = [1, 2, 3, 4, 7]  # One of the two columns of a and of d, all of b, none of c.
    assert sets_of(all_parities(TABLE, order)) == wanted_sets(TABLE, telling, order)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 63), order=st.integers(1, 3), seed=st.integers(0, 99))
def test_random_parities_are_distinct_ones_of_them(count: int, order: int, seed: int) -> None:
    for view, most in ((ITEMS, [7, 28, 63]), (TABLE, [5, 12, 15])):
        wanted = min(count, most[order - 1])
        queries = random_parities(view, wanted, order, np.random.default_rng(seed))
        chosen = sets_of(queries)
        assert len(set(chosen)) == wanted
        assert set(chosen) <= set(sets_of(all_parities(view, order)))
    with pytest.raises(ValueError, match="want 1 .."):
        random_parities(ITEMS, 64, order, np.random.default_rng(seed))


def test_random_parities_favour_no_set() -> None:
    """1,000 draws of 10 of 63: each set comes 10 / 63 of the time, six standard deviations being 0.07 at most."""
    chosen = [sets_of(random_parities(ITEMS, 10, 3, np.random.default_rng(seed))) for seed in range(1000)]
    triples = [found for sets in chosen for found in sets if len(found) == 3]
    often = np.unique(np.array(triples), axis=0, return_counts=True)[1] / 1000
    assert often.size == 35
    assert np.abs(often - len(triples) / 35 / 1000).max() < 0.07


@pytest.mark.parametrize("order", [0, 4])
def test_orders_without_an_oracle_are_refused(order: int) -> None:
    with pytest.raises(ValueError, match=r"want parities of 1 \.\. 3 columns"):
        all_parities(ITEMS, order)


def test_attributes_of_one_value_have_no_parities() -> None:
    with pytest.raises(ValueError, match="every attribute has one value"):
        all_parities(BinaryView.one_hot(Domain.of({"a": 1, "b": 1})), 2)


@pytest.mark.parametrize(("view", "records"), RECORDS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_exact_parities_give_exact_conjunctions(view: BinaryView, records: NDArray[np.bool_], order: int) -> None:
    queries = random_conjunctions(view, 20 if order > 1 else 7, order, np.random.default_rng(order), negate=True)
    for parities in (parities_for(queries), all_sets(view, order)):
        exact = count_parities(parities, records).astype(np.float64)
        found = conjunctions_from_parities(queries, parities, exact, float(len(records)))
        assert np.array_equal(found, count_conjunctions(queries, records))


def all_sets(view: BinaryView, order: int) -> Parities:
    """Also of several columns of one group, in random order."""
    sets = [list(chosen) for size in range(1, order + 1) for chosen in combinations(range(view.columns), size)]
    np.random.default_rng(0).shuffle(sets)
    return Parities.of_sets(view, sets)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_errors_of_parities_bound_those_of_conjunctions(order: int) -> None:
    """The worst signs of errors of 1 reach 2 (1 - 2^-k), no more: below the error 2 of the -1/1 parities."""
    columns = np.tile(np.arange(order), (2**order, 1))
    queries = Conjunctions(ITEMS, columns, np.array(list(product([False, True], repeat=order))))
    parities = parities_for(queries)
    assert parities.size == 2**order - 1
    worst = np.zeros(queries.size)
    for signs in product([-1.0, 1.0], repeat=parities.size):
        found = conjunctions_from_parities(queries, parities, np.array(signs), 0.0)
        worst = np.maximum(worst, np.abs(found))
    assert worst == pytest.approx(np.full(queries.size, 2 * (1 - 2.0**-order)))
    of_total = conjunctions_from_parities(queries, parities, np.zeros(parities.size), 1.0)
    assert np.abs(of_total).max() <= 1


def test_a_missing_parity_is_named() -> None:
    queries = Conjunctions(ITEMS, np.array([[2, 5]]), np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"parity of columns \[2, 5\] is missing"):
        conjunctions_from_parities(queries, Parities.of_sets(ITEMS, [[2], [5]]), np.ones(2), 4.0)
    with pytest.raises(ValueError, match="want one for each of 2 parities"):
        conjunctions_from_parities(queries, Parities.of_sets(ITEMS, [[2], [5]]), np.ones(3), 4.0)


def test_conjunctions_that_parities_cannot_make_are_refused() -> None:
    with pytest.raises(ValueError, match="want at most 3"):
        parities_for(Conjunctions(ITEMS, np.array([[0, 1, 2, 3]]), np.zeros((1, 4))))
    with pytest.raises(ValueError, match="both values of one attribute"):
        parities_for(Conjunctions(TABLE, np.array([[0, 1]]), np.zeros((1, 2))))
    with pytest.raises(ValueError, match=r"fewer than 2\^21"):
        conjunctions_from_parities(
            Conjunctions.single_columns(BinaryView(1 << 21)),
            Parities.of_sets(BinaryView(1 << 21), [[0]]),
            np.ones(1),
            1.0,
        )
