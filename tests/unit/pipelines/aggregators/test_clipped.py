"""Satisfaction histograms and clipped sums over blocks, against their definition on a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError, EngineError, IntegrityError
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.testing.tiny_statistics import clipped as by_definition
from pipelines.aggregators import BasketBlock, TableBlock, aggregator_for, clipped, packing
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Attribute, Kind, Schema

ITEMS = 40
LAYOUT = BasketLayout("u", "i", ITEMS)


def block_of(matrix: NDArray[np.bool_]) -> BasketBlock:
    """Some items twice, and those of a unit in any order."""
    draw = np.random.default_rng(3)
    held = [draw.permutation(np.flatnonzero(row).repeat(draw.integers(1, 3))) for row in matrix]
    return BasketBlock(np.cumsum([0, *map(len, held)]), np.concatenate(held).astype(np.int32))


def matrix_of(units: int, density: float) -> NDArray[np.bool_]:
    draw = np.random.default_rng(units)
    matrix = draw.random((units, ITEMS)) < density
    matrix[np.arange(units), draw.integers(0, ITEMS, size=units)] = True
    return matrix


def random_queries(order: int, count: int) -> Conjunctions:
    draw = np.random.default_rng(order)
    columns = np.array([draw.choice(ITEMS, size=order, replace=False) for _ in range(count)])
    return Conjunctions(BinaryView(ITEMS), columns, np.zeros_like(columns, dtype=bool))


def test_groups_of_several_orders_equal_the_definition() -> None:
    parts = [random_queries(order, 30) for order in (1, 2, 3, 4)]
    groups = np.repeat(np.arange(4, dtype=np.int32), 30)
    asked = ClippedSums.of(Conjunctions.joined(parts), [2, 3, 1.5, 1], groups, factors=[1, 0.5, 2, 1])
    matrix = matrix_of(500, 0.4)
    aggregator = aggregator_for(asked, LAYOUT)
    counted = aggregator.extract(aggregator.add(aggregator.create(), block_of(matrix)))
    assert counted.tolist() == by_definition(asked, matrix).tolist()
    for group, part in enumerate(parts):
        alone = ClippedSums(part, asked.weights[group : group + 1])
        assert counted[groups == group].tolist() == by_definition(alone, matrix).tolist()


@pytest.mark.parametrize("cache", [1, packing._CACHE])
@pytest.mark.parametrize("units", [1, 64, 513, 1300])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("density", [0.05, 0.7])
def test_equals_the_definition(
    order: int, units: int, density: float, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_CACHE", cache)
    queries = random_queries(order, 90)
    groups = (np.arange(90) % 7 % 3).astype(np.int32)
    weights = np.random.default_rng(0).integers(0, 1 << 20, size=(3, 91))
    matrix = matrix_of(units, density)
    for asked in (
        SatisfactionHistogram(queries),
        SatisfactionHistogram(queries, groups),
        SatisfactionHistogram(queries, None, np.array([0, 1, 2, 3, 11, 40])),
        SatisfactionHistogram(queries, groups, np.array([0, 2, 5])),
        ClippedSums.of(queries, [2]),
        ClippedSums(queries, weights, groups),
    ):
        aggregator = aggregator_for(asked, LAYOUT)
        counted = aggregator.extract(aggregator.add(aggregator.create(), block_of(matrix)))
        assert counted.tolist() == by_definition(asked, matrix).tolist()


def test_sums_that_pass_64_bits_are_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ClippedSums(random_queries(1, ITEMS), np.full((1, ITEMS + 1), 1 << 40))
    aggregator, block = aggregator_for(asked, LAYOUT), block_of(matrix_of(100, 0.2))
    total = int(aggregator.add(aggregator.create(), block)[ITEMS])
    monkeypatch.setattr(clipped, "LARGEST_TOTAL", total)
    assert aggregator.add(aggregator.create(), block)[ITEMS] == total
    monkeypatch.setattr(clipped, "LARGEST_TOTAL", total - 1)
    with pytest.raises(EngineError, match="does not fit 64 bits"):
        aggregator.add(aggregator.create(), block)


@pytest.mark.parametrize("place", ["a sum", "a total", "the units"])
def test_sums_that_are_not_what_the_units_gave_are_found(place: str) -> None:
    aggregator = aggregator_for(ClippedSums.of(random_queries(2, 20), [1]), LAYOUT)
    counted = aggregator.add(aggregator.create(), block_of(matrix_of(300, 0.4)))
    assert aggregator.extract(counted).any()
    if place == "the units":
        counted[-2:] = 1  # So few units cannot have given so much.
    else:
        counted[0 if place == "a sum" else 20] += 1
    with pytest.raises(IntegrityError, match="clipped sums differ from their totals"):
        aggregator.extract(counted)


def test_units_of_several_rows_and_other_views_are_refused() -> None:
    schema = Schema((Attribute("a", Kind.INTEGER, edges=(0, 1, 2), null=False),))
    view = TableLayout("u", schema).view
    queries = Conjunctions(view, np.array([[0], [1]]), np.zeros((2, 1), dtype=bool))
    for asked in (SatisfactionHistogram(queries), ClippedSums.of(queries, [1])):
        with pytest.raises(ConfigError, match="want max_rows_per_unit: 1"):
            aggregator_for(asked, TableLayout("u", schema, 2))
        with pytest.raises(ConfigError, match="2 columns; want 40, as many as the data"):
            aggregator_for(asked, LAYOUT)
        aggregator = aggregator_for(asked, TableLayout("u", schema))
        with pytest.raises(IntegrityError, match=r"want 1 \.\. 1 per unit"):
            aggregator.add(aggregator.create(), TableBlock(np.zeros((1, 4), dtype=np.uint8), 2))


@pytest.mark.parametrize("change", [1, -1])
def test_a_group_that_bins_more_or_fewer_units_than_there_are_is_found(change: int) -> None:
    aggregator = aggregator_for(SatisfactionHistogram(random_queries(2, 20)), LAYOUT)
    total = aggregator.add(aggregator.create(), block_of(matrix_of(64, 0.3)))
    aggregator.extract(total.copy())
    total[int(np.argmax(total[:-2]))] += change
    with pytest.raises(IntegrityError, match="count every unit once"):
        aggregator.extract(total)


@pytest.mark.parametrize("groups", [1, 3])
def test_counters_hold_the_number_of_satisfied_queries_however_far_the_carries_reach(groups: int) -> None:
    """Queries that all, few and no records satisfy, in mixed order; the reference counts them in numpy."""
    generator = np.random.default_rng(groups)
    shares = generator.choice([0.0, 0.02, 0.5, 0.97, 1.0], size=40)
    held = generator.random((40, 512)) < shares[:, None]
    bits = np.packbits(held, axis=1, bitorder="little").view(np.uint64)
    rows = generator.integers(0, 40, (1_000, 3)).astype(np.uint32)
    group_of = generator.integers(0, groups, 1_000).astype(np.int32)
    satisfied, met = clipped._satisfied(bits, rows, group_of, np.bincount(group_of, minlength=groups))
    holds = held[rows].all(axis=1)  # [queries, records]
    expected = np.stack([holds[group_of == group].sum(axis=0) for group in range(groups)])
    assert satisfied.tolist() == expected.tolist()
    assert met.tolist() == np.flatnonzero(holds.any(axis=1)).tolist()
