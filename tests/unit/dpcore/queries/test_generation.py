from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.queries.distinct import DistinctRows
from dpcore.queries.generation import random_conjunctions

TABLE = BinaryView.one_hot(Domain.of({"a": 2, "b": 3, "c": 4, "d": 2}))


def rows(
    view: BinaryView, count: int, order: int, seed: int = 0, **options: object
) -> list[tuple[tuple[int, bool], ...]]:
    queries = random_conjunctions(view, count, order, np.random.default_rng(seed), **options)  # type: ignore[arg-type]
    assert queries.columns.shape == (count, order)
    return [
        tuple(zip(columns, negated, strict=True))
        for columns, negated in zip(queries.columns.tolist(), queries.negated.tolist(), strict=True)
    ]


@settings(max_examples=40)
@given(order=st.integers(1, 4), count=st.integers(1, 20), negate=st.booleans(), seed=st.integers(0, 2**32))
def test_conjunctions_are_distinct_and_take_one_literal_from_a_group(
    order: int, count: int, negate: bool, seed: int
) -> None:
    count = min(count, 11)
    drawn = rows(TABLE, count, order, seed, negate=negate)
    assert len({frozenset(row) for row in drawn}) == count
    groups = TABLE.group_of_column()
    for row in drawn:
        assert len({groups[column] for column, _ in row}) == order
    if not negate:
        assert not any(sign for row in drawn for _, sign in row)


def test_every_conjunction_of_a_small_view_is_found() -> None:
    assert len({frozenset(row) for row in rows(BinaryView(5), math.comb(5, 3), 3)}) == 10
    assert len({frozenset(row) for row in rows(BinaryView(3), 12, 2, negate=True)}) == 12  # comb(3, 2) * 2^2


@pytest.mark.parametrize("weights", [None, np.array([1e6, 1e-6, 1.0, 1e-3, 1.0])])
def test_where_more_are_wanted_than_exist_all_are_taken(weights: NDArray[np.float64] | None) -> None:
    queries = random_conjunctions(BinaryView(5), 1_000, 3, np.random.default_rng(1), weights=weights)
    assert sorted(map(tuple, queries.columns.tolist())) == list(combinations(range(5), 3))


@pytest.mark.parametrize("negate", [False, True])
def test_the_last_ones_are_found_where_proposals_hardly_ever_name_them(negate: bool) -> None:
    """Random proposals alone find 99.5 % of these pairs in 200 rounds."""
    existing = math.comb(300, 2) * (4 if negate else 1)
    for count in (existing, existing - 1):
        assert len({frozenset(row) for row in rows(BinaryView(300), count, 2, negate=negate)}) == count


def test_weights_that_propose_too_few_are_refused() -> None:
    weights = np.full(400, 1e-12)
    weights[:3] = 1.0
    with pytest.raises(ValueError, match="only 3 distinct conjunctions of order 2 were found"):
        rows(BinaryView(400), 100, 2, weights=weights)


@pytest.mark.parametrize("order", [0, 5])
def test_an_order_beyond_the_groups_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match=f"order {order} over 11 usable columns"):
        rows(TABLE, 1, order)


def test_columns_without_weight_are_never_named() -> None:
    weights = np.array([0.0, 1, 1, 1, 0])
    drawn = rows(BinaryView(5), 3, 2, weights=weights)
    assert {column for row in drawn for column, _ in row} == {1, 2, 3}
    with pytest.raises(ValueError, match="order 4 over 3 usable columns"):
        rows(BinaryView(5), 1, 4, weights=weights)


@pytest.mark.parametrize(
    "weights", [np.ones(4), np.zeros(5), np.array([1.0, 1, 1, 1, -1]), np.array([1.0, 1, 1, 1, np.nan])]
)
def test_bad_weights_are_refused(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with pytest.raises(ValueError, match="want 5 finite numbers >= 0, not all 0"):
        rows(BinaryView(5), 1, 1, weights=weights)


def test_columns_are_named_in_proportion_to_their_weights() -> None:
    """Pairs among 300 columns, 2,000 of 44,850: heavy columns (weight 4) come about 4 times as often as light ones.

    Counts of the two halves are near 3,200 and 800, so a ratio outside 3..5 is beyond 8 standard deviations.
    """
    weights = np.repeat([4.0, 1.0], 150)
    named = Counter(column < 150 for row in rows(BinaryView(300), 2000, 2, weights=weights) for column, _ in row)
    assert 3 < named[True] / named[False] < 5


def test_half_of_the_literals_are_negated() -> None:
    """4,000 literals: 1,800 to 2,200 is 6.3 standard deviations either side."""
    signs = [sign for row in rows(BinaryView(300), 2000, 2, negate=True) for _, sign in row]
    assert 1800 < sum(signs) < 2200


def test_one_generator_state_gives_one_workload() -> None:
    assert rows(TABLE, 20, 3, 7) == rows(TABLE, 20, 3, 7)
    assert rows(TABLE, 20, 3, 7) != rows(TABLE, 20, 3, 8)


def test_an_attribute_of_one_value_is_never_named() -> None:
    view = BinaryView.one_hot(Domain.of({"a": 1, "b": 2, "c": 3, "d": 1}))
    for weights in (None, np.arange(1.0, 8.0)):
        drawn = rows(view, 20, 2, negate=True, weights=weights)
        assert {column for row in drawn for column, _ in row} == {1, 2, 3, 4, 5}
    with pytest.raises(ValueError, match="order 3 over 5 usable columns"):
        rows(view, 1, 3)
    with pytest.raises(ValueError, match="every attribute with a weight has one value"):
        rows(view, 1, 1, weights=np.array([1.0, 0, 0, 0, 0, 0, 0]))


# Digests of what earlier versions drew: a seed in a config stands for its queries.
PINNED = [(30, 4000, 3, "1a74978b69ab", "1bad6f29ef7e"), (40, 500, 6, "894b0cbded98", "7cabe451e44f")]


@pytest.mark.parametrize(("columns", "count", "order", "plain", "weighted"), PINNED)
def test_a_seed_draws_what_it_always_drew(columns: int, count: int, order: int, plain: str, weighted: str) -> None:
    view, weights = BinaryView(columns), np.arange(1, columns + 1.0)
    assert random_conjunctions(view, count, order, np.random.default_rng(5)).digest()[:12] == plain
    signed = random_conjunctions(view, count, order, np.random.default_rng(6), negate=True, weights=weights)
    assert signed.digest()[:12] == weighted


@settings(max_examples=60)
@given(offers=st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20), max_size=6))
def test_distinct_rows_are_kept_in_the_order_of_their_first_offer(offers: list[list[tuple[int, int]]]) -> None:
    for most in (1, 7, 100):
        found = DistinctRows(most, 2)
        for offer in offers:
            found.offer(np.array(offer, dtype=np.int32).reshape(-1, 2))
        wanted = list(dict.fromkeys(row for offer in offers for row in offer))[:most]
        assert list(map(tuple, found.rows.tolist())) == wanted
        assert len(found) == len(wanted)
