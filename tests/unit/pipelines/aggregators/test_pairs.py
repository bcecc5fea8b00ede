"""Clipped sums and histograms of all pairs of some items, against their definition and the general aggregator."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import EngineError, IntegrityError
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.itemsets import all_pairs, positive
from dpcore.testing.tiny_statistics import clipped as by_definition
from pipelines.aggregators import BasketBlock, aggregator_for, pairs
from pipelines.aggregators.clipped import Clipped, Satisfactions
from pipelines.aggregators.pairs import ClippedPairs, PairSatisfactions, items_of_all_pairs
from pipelines.layout import BasketLayout

ITEMS = 150  # More than two words of a bitmap.
LAYOUT = BasketLayout("u", "i", ITEMS)


def matrix_of(units: int, density: float) -> NDArray[np.bool_]:
    draw = np.random.default_rng(units)
    matrix = draw.random((units, ITEMS)) < density
    matrix[np.arange(units), draw.integers(0, ITEMS, size=units)] = True
    return matrix


def block_of(matrix: NDArray[np.bool_]) -> BasketBlock:
    """Some items twice, and those of a unit in any order."""
    draw = np.random.default_rng(3)
    held = [draw.permutation(np.flatnonzero(row).repeat(draw.integers(1, 3))) for row in matrix]
    return BasketBlock(np.cumsum([0, *map(len, held)]), np.concatenate(held).astype(np.int32))


def pairs_of(*items: int) -> Conjunctions:
    return positive(BinaryView(ITEMS), all_pairs(np.array(items, dtype=np.int32)))


@pytest.mark.parametrize("items", [(3, 149), (0, 63, 64, 127, 128), tuple(range(ITEMS)), tuple(range(5, 140, 3))])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_equals_the_definition_and_the_general_aggregator(items: tuple[int, ...], density: float) -> None:
    queries = pairs_of(*items)
    rising = np.random.default_rng(0).integers(0, 1 << 20, size=(1, queries.size + 1))
    matrix = matrix_of(90, density)
    block = block_of(matrix)
    for asked in (
        SatisfactionHistogram(queries),
        ClippedSums.of(queries, [2]),
        ClippedSums.of(queries, [1.5], norm=1),
        ClippedSums(queries, rising),
    ):
        fast = aggregator_for(asked, LAYOUT)
        assert isinstance(fast, PairSatisfactions | ClippedPairs)
        general = Satisfactions.of(asked) if isinstance(asked, SatisfactionHistogram) else Clipped.of(asked)
        slow = general.add(general.create(), block)
        accumulator = fast.add(fast.create(), block)
        assert accumulator.tolist() == slow.tolist()
        assert fast.extract(accumulator).tolist() == by_definition(asked, matrix).tolist()


def test_blocks_may_be_split_and_merged_in_slices() -> None:
    asked = ClippedSums.of(pairs_of(*range(40)), [3])
    aggregator, matrix = aggregator_for(asked, LAYOUT), matrix_of(60, 0.3)
    whole = aggregator.add(aggregator.create(), block_of(matrix))
    parts = [aggregator.add(aggregator.create(), block_of(matrix[rows])) for rows in (slice(0, 7), slice(7, 60))]
    middle = whole.size // 2
    slices = [
        aggregator.merge(parts[0][rows].copy(), parts[1][rows]) for rows in (slice(0, middle), slice(middle, None))
    ]
    assert np.concatenate(slices).tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ([[0, 1], [1, 2], [0, 2]], None),  # Another order.
        ([[0, 1], [0, 2]], None),  # A pair is missing.
        ([[0, 1], [0, 2], [0, 3]], None),  # As many pairs as of three items, but of four.
        ([[1, 0], [0, 2], [1, 2]], None),  # The larger item first.
        ([[0, 1], [0, 2], [1, 2]], [0, 0, 1]),  # Two groups.
        ([[0, 1, 2]], None),  # A triple.
        ([[0], [1]], None),
    ],
)
def test_other_requests_have_the_general_aggregator(columns: list[list[int]], groups: list[int] | None) -> None:
    queries = positive(BinaryView(ITEMS), np.array(columns, dtype=np.int32))
    group = None if groups is None else np.array(groups, dtype=np.int32)
    asked = SatisfactionHistogram(queries, group)
    assert items_of_all_pairs(asked) is None
    assert isinstance(aggregator_for(asked, LAYOUT), Satisfactions)


def test_pairs_of_columns_of_a_table_have_the_general_aggregator() -> None:
    view = BinaryView.one_hot(Domain.of({"a": 2, "b": 2}))
    assert items_of_all_pairs(SatisfactionHistogram(positive(view, all_pairs(np.arange(4, dtype=np.int32))))) is None


def test_sums_that_pass_64_bits_are_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = pairs_of(0, 1, 2)
    aggregator = aggregator_for(ClippedSums(queries, np.full((1, 4), 1 << 40)), LAYOUT)
    assert isinstance(aggregator, ClippedPairs)
    block = BasketBlock(np.array([0, 3]), np.array([0, 1, 2], dtype=np.int32))
    start = aggregator.create()
    start[-3] = pairs.LARGEST_TOTAL - 3 * (1 << 40)  # The total of the group.
    assert aggregator.add(start.copy(), block)[-3] == pairs.LARGEST_TOTAL
    start[-3] += 1
    with pytest.raises(EngineError, match="does not fit 64 bits"):
        aggregator.add(start, block)


@pytest.mark.parametrize("place", [0, -3, -1])
def test_sums_that_are_not_what_the_units_gave_are_found(place: int) -> None:
    aggregator = aggregator_for(ClippedSums.of(pairs_of(*range(12)), [1]), LAYOUT)
    counted = aggregator.add(aggregator.create(), block_of(matrix_of(300, 0.4)))
    assert aggregator.extract(counted).any()
    counted[place] += -counted[place] + 1 if place == -1 else 1
    with pytest.raises(IntegrityError):
        aggregator.extract(counted)


@pytest.mark.parametrize("change", [1, -1])
def test_a_histogram_that_does_not_count_every_unit_once_is_found(change: int) -> None:
    aggregator = aggregator_for(SatisfactionHistogram(pairs_of(*range(12))), LAYOUT)
    total = aggregator.add(aggregator.create(), block_of(matrix_of(64, 0.3)))
    aggregator.extract(total.copy())
    total[int(np.argmax(total[:-2]))] += change
    with pytest.raises(IntegrityError, match="count every unit once"):
        aggregator.extract(total)
