"""What satisfaction histograms and clipped sums could get wrong, for the planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel import sensitivity
from dpcore.mechanisms.clipping.lattice_groups import Groups
from dpcore.queries import ClippedSums, SatisfactionHistogram
from dpcore.queries.lattice import Lattice
from dpcore.queries.sorted_rows import SortedRows
from pipelines.aggregators import clipped, pairs, weighing

ADD_PAIRS = pairs._add_pairs
GROUPS = Groups.of
OF_ONE_RECORD, SATISFIED, PLANES = sensitivity._of_one_record, clipped._satisfied, clipped.planes_of


def of_one_query(queries: ClippedSums, power: int) -> list[int]:
    """As if a unit that satisfies many queries added to one of them."""
    return [int(row.max()) ** power for row in queries.weights]


def of_heavy_units_alone(queries: ClippedSums, power: int) -> list[int]:
    """Of a unit that satisfies every query, as if it always added most."""
    sizes = queries.group_sizes.tolist()
    return [size * int(row[size]) ** power for row, size in zip(queries.weights, sizes, strict=True)]


def of_the_largest_group(queries: Any, unit: Any, power: int) -> int:
    return 1 if isinstance(queries, SatisfactionHistogram) else max(sensitivity.largest_clipped(queries, power))


def of_any_unit(queries: Any, unit: Any, power: int) -> int:
    """Several rows a unit go unnoticed."""
    if isinstance(queries, SatisfactionHistogram):
        return queries.group_sizes.size
    return sum(sensitivity.largest_clipped(queries, power))


def satisfied_by(change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Callable[..., Any]:
    """How many queries each record of a slab satisfies, int64 [groups, records], changed."""

    def wrong(*given: Any) -> Any:
        satisfied, met = SATISFIED(*given)
        return change(satisfied), met

    return wrong


class RepeatedRows:
    """The layers of a lattice with a member for each term, though terms share members."""

    @staticmethod
    def of(rows: NDArray[np.int32], base: int) -> tuple[SortedRows, NDArray[np.int64]]:
        layer, _ = SortedRows.of(rows, base)
        return SortedRows(rows, layer.keys, base), np.arange(len(rows))


def of_one_group(lattice: Lattice) -> Groups:
    """Every member in the group of the lowest order."""
    whole = GROUPS(lattice)
    return Groups(lattice, whole.orders, np.zeros_like(whole.of_member), whole.importance)


def of_the_next_unit(satisfied: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.roll(satisfied, 1, axis=1)


def of_all_groups(satisfied: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(satisfied.sum(axis=0, keepdims=True), satisfied.max()) + np.zeros_like(satisfied)


def one_less(satisfied: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(satisfied - 1, 0)


def of_the_first_group(weights: NDArray[np.int64], words: int) -> Any:
    planes, reach = PLANES(weights, words)
    return np.repeat(planes[:1], len(planes), axis=0), np.repeat(reach[:1], len(reach), axis=0)


def rounded_to_powers_of_two(weights: NDArray[np.int64], words: int) -> Any:
    """The next larger power: the norm that was charged for is passed."""
    larger = np.where(weights > 0, 1 << np.ceil(np.log2(np.maximum(weights, 1))).astype(np.int64), 0)
    return weighing.planes_of(larger, words)


def pairs_of_one_item_less(
    sums: Any, total: Any, starts: Any, items: Any, rank_of: Any, size: int, weights: NDArray[np.int64]
) -> bool:
    """The weight of a unit is that of a unit with one item less."""
    shifted = np.array([weights[fewer_pairs(number)] for number in range(weights.size)])
    return bool(ADD_PAIRS(sums, total, starts, items, rank_of, size, shifted))


def fewer_pairs(number: int) -> int:
    """Pairs of one item less than ``number`` pairs are of."""
    held = (1 + int(np.sqrt(1 + 8 * number))) // 2
    return max(held - 1, 0) * max(held - 2, 0) // 2


def pairs_with_repeats(
    sums: Any, total: Any, starts: Any, items: Any, rank_of: Any, size: int, weights: NDArray[np.int64]
) -> bool:
    """The weight of a unit follows from the number of its rows: an item that it holds twice counts twice."""
    for start, stop in pairwise(starts):
        rows = int((rank_of[items[start:stop]] >= 0).sum())
        weight = weights[min(rows * (rows - 1) // 2, weights.size - 1)]
        ADD_PAIRS(sums, total, np.array([start, stop]), items, rank_of, size, np.full_like(weights, weight))
    return True


def binned_by_items(cells: Any, starts: Any, items: Any, rank_of: Any, size: int) -> None:
    for start, stop in pairwise(starts):
        cells[int((rank_of[items[start:stop]] >= 0).sum()).bit_length()] += 1
