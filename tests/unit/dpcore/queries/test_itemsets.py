"""The request for itemsets, its limits and digest, and conjunctions of several orders in one list."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions, Itemsets
from dpcore.queries.itemsets import all_pairs, positive
from dpcore.workload import frequent

VIEW = BinaryView(7)


def test_all_pairs_are_in_lexicographic_order() -> None:
    items = np.array([1, 4, 5, 6], dtype=np.int32)
    assert all_pairs(items).tolist() == [list(pair) for pair in combinations(items.tolist(), 2)]
    assert all_pairs(items[:2]).tolist() == [[1, 4]]


@pytest.mark.parametrize("columns", [[[1, 1, 2]], [[1, 2, 1]], [[2, 1, 2, 2]], [[0, 0, 3, 3]]])
def test_no_other_repeats_are_taken(columns: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="names a column twice"):
        positive(VIEW, np.array(columns, dtype=np.int32))


def test_a_repeat_has_the_same_sign() -> None:
    columns = np.array([[1, 2, 2]], dtype=np.int32)
    assert Conjunctions(VIEW, columns, np.array([[False, True, True]])).orders.tolist() == [2]
    with pytest.raises(ValueError, match="names a column twice"):
        Conjunctions(VIEW, columns, np.array([[False, True, False]]))


def test_the_size_is_the_largest_number_of_answers() -> None:
    assert Itemsets(VIEW, 2, top=5).size == 10
    assert Itemsets(VIEW, 3, top=30).size == 7 + 21 + 30
    assert Itemsets(VIEW, 3, min_support=Fraction(1, 100)).size == 7 + 21 + 35


def test_the_digest_tells_requests_apart() -> None:
    requests = [
        Itemsets(VIEW, 2, top=5),
        Itemsets(VIEW, 3, top=5),
        Itemsets(VIEW, 2, top=6),
        Itemsets(BinaryView(8), 2, top=5),
        Itemsets(VIEW, 2, min_support=Fraction(1, 5)),
    ]
    assert len({request.digest() for request in requests}) == len(requests)
    assert Itemsets(VIEW, 2, top=5).digest() == requests[0].digest()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 4, "top": 1}, "want 2 or 3"),
        ({"order": 1, "top": 1}, "want 2 or 3"),
        ({"order": 2}, "want one of them"),
        ({"order": 2, "top": 1, "min_support": Fraction(1, 2)}, "want one of them"),
        ({"order": 2, "top": 0}, r"want 1 \.\. 1,000,000"),
        ({"order": 2, "min_support": Fraction(1)}, r"in \(0, 1\)"),
        ({"order": 3, "top": 1, "view": BinaryView(2)}, "want more items"),
        ({"order": 2, "top": 1, "view": BinaryView.one_hot(Domain.of({"a": 3}))}, "want baskets"),
    ],
)
def test_other_requests_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Itemsets(**({"view": VIEW} | settings))  # type: ignore[arg-type]


def test_a_workload_of_itemsets_has_no_queries_in_advance() -> None:
    workload = frequent(Itemsets(VIEW, 2, top=5))
    with pytest.raises(ConfigError, match="want mechanism: frequent_itemsets"):
        _ = workload.queries


@pytest.mark.parametrize("items", [15, 57, 112, 115])
def test_the_largest_number_of_answers_is_exact(items: int) -> None:
    assert Itemsets(BinaryView(items), 3, min_support=Fraction(1, 10)).size == sum(
        math.comb(items, k) for k in (1, 2, 3)
    )
