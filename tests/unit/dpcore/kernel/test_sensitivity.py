"""Every bound against the true change between all small neighbouring datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape, Statistics
from dpcore.kernel.sensitivity import (
    Neighbours,
    PrivacyUnit,
    answer_sensitivity,
    l1_sensitivity,
    marginal_l1_sensitivity,
    squared_l2_sensitivity,
)
from dpcore.queries import Conjunctions, Marginals, Parities, Product, Products, Queries, UnitCount
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable

DOMAIN = Domain.of({"a": 2, "b": 3})
ONE_HOT = BinaryView.one_hot(DOMAIN)
ITEMS = BinaryView(4)


@dataclass(frozen=True)
class Case:
    """Queries, and for which of their four bounds (L1, L2) x (add/remove, replace) an example must reach them."""

    name: str
    queries: Queries
    tight: str = "L1+ L2+ L1= L2="


def literals(view: BinaryView, *rows: tuple[int, ...]) -> Conjunctions:
    """Conjunctions from signed literals: column c is c + 1, its negation -(c + 1)."""
    signed = np.array(rows)
    return Conjunctions(view, (np.abs(signed) - 1).astype(np.int32), signed < 0)


TABLE_CASES = [
    Case("one marginal", Marginals(DOMAIN, (("a", "b"),))),
    Case("one-way marginals", Marginals(DOMAIN, (("a",), ("b",)))),
    Case("a marginal twice", Marginals(DOMAIN, (("a",), ("a",), ("a", "b")))),
    Case("the number of rows", Marginals(DOMAIN, ((),)), "L1+ L2+"),
    Case("the number of rows and a marginal", Marginals(DOMAIN, ((), ("b",))), "L1+ L2+"),
    Case("single columns", Conjunctions.single_columns(ONE_HOT)),
    Case("single columns of one attribute", literals(ONE_HOT, (3,), (4,), (5,))),
    Case("a column twice", literals(ONE_HOT, (1,), (1,))),
    Case("negated single columns", literals(ONE_HOT, (-1,), (-3,))),
    Case("one conjunction", literals(ONE_HOT, (1, 3))),
    Case("conjunctions that meet", literals(ONE_HOT, (1, -3), (1, -4), (-2, 5)), "L1+ L2+ L1= L2="),
    Case("conjunctions that exclude each other", literals(ONE_HOT, (1, 3), (2, 3), (1, 4)), ""),
    Case("two literals of one attribute", literals(ONE_HOT, (3, 4), (-3, -4)), ""),
    Case("one parity", Parities.of_sets(ONE_HOT, [[0, 2, 3]])),
    Case("parities that one row has", Parities.of_sets(ONE_HOT, [[0], [2], [2, 3]])),
    Case("a parity and its complement", Parities.of_sets(ONE_HOT, [[0], [1]]), "L1= L2="),
]
BASKET_CASES = [
    Case("single items", Conjunctions.single_columns(ITEMS)),
    Case("one item", literals(ITEMS, (2,))),
    Case("an item twice", literals(ITEMS, (1,), (1,), (2,)), ""),
    Case("negated items", literals(ITEMS, (-1,), (-2,))),
    Case("pairs", literals(ITEMS, (1, 2), (1, -3), (-2, 4)), ""),
    Case("one triple", literals(ITEMS, (1, -2, -3))),
    Case("a parity of three items", Parities.of_sets(ITEMS, [[0, 1, 3]])),
    Case("parities of some items", Parities.of_sets(ITEMS, [[0], [1], [0, 1], [0, 1, 2]]), "L1+ L2+"),
]


def table_units(bound: int) -> Iterator[Statistics]:
    cells = [(a, b) for a in range(2) for b in range(3)]
    for rows in range(bound + 1):
        for unit in combinations_with_replacement(cells, rows):
            yield TinyTable(DOMAIN, np.array(unit, dtype=np.int64).reshape(rows, 2), bound)


def basket_units(bound: int) -> Iterator[Statistics]:
    for held in range(bound + 1):
        for unit in combinations(range(4), held):
            yield TinyBaskets(ITEMS, np.isin(np.arange(4), unit)[None, :], bound)


def answers(units: Iterator[Statistics], queries: Queries) -> NDArray[np.int64]:
    """What each possible unit adds to the answers: they are sums over units."""
    return np.stack([unit.aggregate(QueryAnswers(queries)) for unit in units])


def true_changes(added: NDArray[np.int64], neighbours: Neighbours) -> NDArray[np.int64]:
    """Changes of the answers over all pairs of neighbours that differ in a possible unit."""
    return added if neighbours is ADD_REMOVE else (added[:, None] - added[None, :]).reshape(-1, added.shape[1])


def check(case: Case, added: NDArray[np.int64], contribution: Contribution, neighbours: Neighbours) -> None:
    unit = PrivacyUnit(neighbours, contribution, 10 if neighbours is REPLACE else None)
    changes = true_changes(added, neighbours)
    l1, squared_l2 = np.abs(changes).sum(axis=1).max(), (changes**2).sum(axis=1).max()
    assert l1 <= l1_sensitivity(case.queries, unit)
    assert squared_l2 <= squared_l2_sensitivity(case.queries, unit)
    sign = "+" if neighbours is ADD_REMOVE else "="
    if f"L1{sign}" in case.tight:
        assert l1 == l1_sensitivity(case.queries, unit)
    if f"L2{sign}" in case.tight:
        assert squared_l2 == squared_l2_sensitivity(case.queries, unit)
    if isinstance(case.queries, Conjunctions | Parities):
        assert np.abs(changes).max() <= answer_sensitivity(unit)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("case", TABLE_CASES, ids=lambda case: case.name)
def test_no_unit_of_a_table_moves_answers_further(case: Case, bound: int, neighbours: Neighbours) -> None:
    check(case, answers(table_units(bound), case.queries), Contribution(Shape.TABLE, bound), neighbours)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("bound", [1, 2, 3, 4])
@pytest.mark.parametrize("case", BASKET_CASES, ids=lambda case: case.name)
def test_no_basket_moves_answers_further(case: Case, bound: int, neighbours: Neighbours) -> None:
    check(case, answers(basket_units(bound), case.queries), Contribution(Shape.BASKETS, bound), neighbours)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_one_marginal_moves_by_what_the_score_assumes(bound: int, neighbours: Neighbours) -> None:
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, bound), 10)
    changes = true_changes(answers(table_units(bound), Marginals(DOMAIN, (("a", "b"),))), neighbours)
    assert np.abs(changes).sum(axis=1).max() == marginal_l1_sensitivity(unit)


@pytest.mark.parametrize("shape", list(Shape))
def test_a_unit_counts_once(shape: Shape) -> None:
    unit = PrivacyUnit(ADD_REMOVE, Contribution(shape, 3))
    assert l1_sensitivity(UnitCount(), unit) == squared_l2_sensitivity(UnitCount(), unit) == 1


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_public_number_of_units_is_not_measured(neighbours: Neighbours) -> None:
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, 1), 10)
    for sensitivity in (l1_sensitivity, squared_l2_sensitivity):
        with pytest.raises(ValueError, match="declared public"):
            sensitivity(UnitCount(), unit)


def test_marginals_of_baskets_are_refused() -> None:
    unit = PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 1))
    for sensitivity in (l1_sensitivity, squared_l2_sensitivity):
        with pytest.raises(ConfigError, match="marginals were asked of baskets"):
            sensitivity(Marginals(DOMAIN, (("a",),)), unit)


def test_replacing_needs_a_public_number_of_units() -> None:
    with pytest.raises(ValueError, match="want units: N, or add_remove_unit"):
        PrivacyUnit(REPLACE, Contribution(Shape.TABLE, 1))
    with pytest.raises(ValueError, match="units is 0; want >= 1"):
        PrivacyUnit(REPLACE, Contribution(Shape.TABLE, 1), 0)
    with pytest.raises(ValueError, match="bounded by 0; want >= 1"):
        Contribution(Shape.TABLE, 0)


@pytest.mark.parametrize("weight", [4, 8, 16])
def test_the_squared_norms_of_products_are_exact_beyond_64_bits(weight: int) -> None:
    """Their largest is 2^60, 2^62 and 2^64: int64 would hold the first two alone."""
    large = 1 << 14
    left, right = np.array([[large, large - 1, 1]]), np.array([[large, 3, 1]])
    products = Products(Domain.of({"a": 3, "b": 3}), (Product(("a", "b"), (left, right), weight),))
    unit = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
    assert squared_l2_sensitivity(products, unit) == weight**2 << 56
