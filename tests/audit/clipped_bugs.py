"""What satisfaction histograms and clipped sums could get wrong, for the planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel import sensitivity
from dpcore.queries import ClippedSums, SatisfactionHistogram
from pipelines.aggregators import clipped, weighing

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
