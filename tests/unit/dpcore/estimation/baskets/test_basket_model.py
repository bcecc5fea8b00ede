"""Answers of the mixture against sums over all baskets, and its counts against its answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.baskets import basket_model
from dpcore.estimation.baskets.basket_model import BasketMixture, corrections_of
from dpcore.estimation.baskets.mixture import Nodes, Parameters, RareItems, solved
from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.queries import Conjunctions, Parities
from dpcore.queries.generation import random_conjunctions
from dpcore.workload import all_k_way

ITEMS = 300
VIEW = BinaryView(ITEMS)


def mixture(sizes: tuple[int, ...] = (0, 1, 2, 5), total: float = 1000.0) -> BasketMixture:
    draw = np.random.default_rng(0)
    law = SizeLaw(np.array(sizes), np.full(len(sizes), 1 / len(sizes)))
    node = np.cumsum(law.sizes > 0) - 1
    positive = law.sizes[law.sizes > 0].astype(float)
    nodes = Nodes(positive, np.full(positive.size, 1 / len(sizes)), np.ones(positive.size), 0.5)
    tastes = draw.normal(0, 0.8, (2, 4))
    parameters = Parameters(draw.normal(-1.5, 0.5, 4), draw.normal(0, 0.2, 4), tastes, np.zeros(2), np.ones(2))
    rare = RareItems(np.array([-4.0]), np.array([ITEMS - 4.0]))
    base = np.append(parameters.base, np.full(ITEMS - 4, -4.0))
    levels = solved(parameters, rare, nodes).levels
    return BasketMixture(VIEW, total, law, node, nodes.logs, np.arange(4), parameters, base, levels)


def conjunction(columns: list[int], negated: list[bool]) -> Conjunctions:
    return Conjunctions(VIEW, np.array([columns]), np.array([negated]))


def test_single_items_are_means_over_classes() -> None:
    model = mixture()
    masses = model.parameters.taste_shares(model.logs) / 4
    p = model.probabilities(np.arange(ITEMS))
    answers = model.answer(Conjunctions.single_columns(VIEW))
    assert np.allclose(answers, 1000.0 * p @ masses.ravel(), rtol=1e-5)
    assert answers.sum() == pytest.approx(1000.0 * (1 + 2 + 5) / 4, rel=1e-5)


def test_signs_of_any_order_sum_to_what_is_left_out() -> None:
    """The answers with a literal and with its negation sum to the answer without it."""
    model = mixture((3, 5, 9))
    for order in (2, 3, 4):
        columns = list(range(order))
        for signs in range(2 ** (order - 1)):
            negated = [bool(signs >> place & 1) for place in range(order - 1)]
            both = [model.answer(conjunction(columns, [*negated, last]))[0] for last in (False, True)]
            assert sum(both) == pytest.approx(model.answer(conjunction(columns[:-1], negated))[0], abs=0.5)


def test_baskets_of_one_item_have_no_pairs() -> None:
    model = mixture((1,))
    pairs = np.array(list(combinations(range(6), 2)))
    assert model.answer(Conjunctions(VIEW, pairs, np.zeros(pairs.shape, dtype=bool))).max() < 0.1


def test_empty_baskets_satisfy_negations_alone() -> None:
    model = mixture((0, 1))
    assert model.answer(conjunction([200, 201, 202], [True] * 3))[0] > 990
    assert model.answer(Parities(VIEW, np.array([[0, 1, 2]])))[0] > 500


def test_a_repeated_last_literal_counts_once() -> None:
    model, longer = mixture((3, 5)), conjunction([0, 2, 3], [False, True, False])
    object.__setattr__(longer, "columns", np.array([[0, 2, 2]], dtype=np.int32))
    object.__setattr__(longer, "negated", np.array([[False, True, True]]))
    assert model.answer(longer)[0] == pytest.approx(model.answer(conjunction([0, 2], [False, True]))[0])


def test_corrections_are_those_of_draws_without_replacement() -> None:
    """Rare literals: the sum over m of C(k, m) corrections is (1 - 1/D) .. (1 - (k - 1)/D)."""
    corrections = corrections_of(np.array([5.0, 40.0]), 4)
    pascal = np.array([1, 4, 6, 4, 1])
    for row, draws in zip(corrections, (5.0, 40.0), strict=True):
        assert row @ pascal == pytest.approx((1 - 1 / draws) * (1 - 2 / draws) * (1 - 3 / draws))
        assert row[:3].tolist() == pytest.approx([1, 0, -1 / draws])


@pytest.mark.parametrize("at_once", [1, 1 << 22])
def test_answers_do_not_depend_on_how_many_items_are_computed_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = random_conjunctions(VIEW, 50, 3, np.random.default_rng(1), negate=True)
    expected = mixture().answer(queries)
    counts = mixture().rounded(400, np.random.default_rng(2)).holders
    monkeypatch.setattr(basket_model, "_ITEMS_AT_ONCE", at_once)
    assert np.allclose(mixture().answer(queries), expected)
    assert np.array_equal(mixture().rounded(400, np.random.default_rng(2)).holders, counts)


@pytest.mark.parametrize("units", [0, 1, 10, 5000])
def test_rounded_counts_are_means_up_to_a_few_units(units: int) -> None:
    model = mixture()
    rounded = model.rounded(units, np.random.default_rng(3))
    assert rounded.units == units
    means = model.answer(Conjunctions.single_columns(VIEW)) * units / 1000
    assert np.abs(rounded.holders.sum(axis=0) - means).max() < 3.5
    by_size = {size: int(rounded.units_of_cell[rounded.sizes == size].sum()) for size in (0, 1, 2, 5)}
    assert max(abs(held - units / 4) for held in by_size.values()) <= 1
    pairs = np.zeros(len(rounded.holders), dtype=np.int64)
    np.add.at(pairs, rounded.classes, rounded.units_of_cell.astype(np.int64) * rounded.sizes)
    assert np.array_equal(rounded.holders.sum(axis=1), pairs)


def test_rounding_keeps_sums_and_bounds() -> None:
    draw = np.random.default_rng(4)
    for _ in range(200):
        most, items = int(draw.integers(1, 9)), int(draw.integers(1, 40))
        wanted = np.minimum(draw.exponential(draw.random() * most, items), most) - 0.3 * (draw.random(items) < 0.3)
        total = min(round(max(0.0, float(wanted.sum()))), most * items)
        rounded: NDArray[np.int32] = np.zeros(items, dtype=np.int32)
        basket_model._round_to_sum(wanted, total, most, draw, rounded)
        assert rounded.sum() == total
        assert 0 <= rounded.min() <= rounded.max() <= most


def test_what_it_cannot_answer_is_refused() -> None:
    with pytest.raises(ConfigError, match="want conjunctions or parities"):
        mixture().answer(all_k_way(Domain.of({"a": 2}), 1).queries)
    other = Conjunctions.single_columns(BinaryView(3))
    with pytest.raises(ConfigError, match="want its own view"):
        mixture().answer(other)
    with pytest.raises(ValueError, match="want at most"):
        mixture().rounded(1 << 31, np.random.default_rng(0))
