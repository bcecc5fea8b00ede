"""Random conjunctions of several orders."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.queries import Conjunctions
from dpcore.queries.mixed_orders import counts_by_order, random_mixed_conjunctions

BASKETS = BinaryView(9)
TABLE = BinaryView.one_hot(Domain.of({"a": 3, "constant": 1, "b": 2, "c": 4}))


def every_set(view: BinaryView, order: int) -> list[tuple[int, ...]]:
    groups = view.group_of_column()
    sizes = np.bincount(groups)
    usable = [column for column in range(view.columns) if not view.groups or sizes[groups[column]] > 1]
    return [chosen for chosen in combinations(usable, order) if len({*groups[list(chosen)]}) == order]


def literals(queries: Conjunctions) -> list[tuple[tuple[int, bool], ...]]:
    rows = zip(queries.columns.tolist(), queries.negated.tolist(), queries.orders.tolist(), strict=True)
    return [tuple(zip(columns[:order], negated[:order], strict=True)) for columns, negated, order in rows]


@pytest.mark.parametrize(
    ("count", "available", "wanted"),
    [(9, [9, 9, 9], [3, 3, 3]), (10, [2, 100, 3], [2, 5, 3]), (7, [100, 100], [3, 4]), (6, [1, 2, 3], [1, 2, 3])],
)
def test_orders_share_the_count_equally_as_far_as_they_can(count: int, available: list[int], wanted: list[int]) -> None:
    assert counts_by_order(count, available) == wanted


@pytest.mark.parametrize("view", [BASKETS, TABLE])
@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("extra", [0, 1000])
def test_all_conjunctions_of_some_orders_can_be_had(view: BinaryView, negate: bool, extra: int) -> None:
    signs = [False, True] if negate else [False]
    every = [
        tuple(zip(chosen, signed, strict=True))
        for order in (1, 3)
        for chosen in every_set(view, order)
        for signed in product(signs, repeat=order)
    ]
    queries = random_mixed_conjunctions(view, len(every) + extra, [3, 1], np.random.default_rng(0), negate=negate)
    assert sorted(literals(queries)) == sorted(every)
    assert (np.diff(queries.orders) >= 0).all()


def test_conjunctions_are_distinct_and_follow_the_weights() -> None:
    weights = np.array([0, 1, 1, 1, 1, 1, 1, 1, 50.0])
    queries = random_mixed_conjunctions(BASKETS, 40, [1, 2, 3], np.random.default_rng(4), weights=weights, negate=True)
    chosen = literals(queries)
    assert len(set(chosen)) == queries.size == 40
    assert not (queries.columns == 0).any()
    assert np.bincount(queries.orders).tolist() == [0, 13, 13, 14]
    assert np.bincount(queries.columns[queries.counted], minlength=9).argmax() == 8


def test_the_same_seed_gives_the_same_conjunctions() -> None:
    first, second, third = (
        random_mixed_conjunctions(BASKETS, 20, [1, 2], np.random.default_rng(seed), negate=True) for seed in (1, 1, 2)
    )
    assert first.digest() == second.digest() != third.digest()
