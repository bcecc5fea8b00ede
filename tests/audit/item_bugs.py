"""What the discovery of items could get wrong, for the planted bugs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.kernel import item_threshold, private_items
from dpcore.kernel.private_items import PrivateItems
from pipelines import contribution
from pipelines.aggregators import item_sums

THRESHOLD, WEIGHTS, ADD_UNITS = private_items.threshold_steps, item_threshold.weights_of, item_sums._add_units


def lower_by_one_sigma(weights: NDArray[np.int64], scale: float, steps: int, threshold_delta: Fraction) -> int:
    return THRESHOLD(weights, scale, steps, threshold_delta) - int(scale * steps)


def for_one_item(weights: NDArray[np.int64], scale: float, steps: int, threshold_delta: Fraction) -> int:
    """As if a unit had one new item at most."""
    return THRESHOLD(weights[:2], scale, steps, threshold_delta)


def without_the_weight(weights: NDArray[np.int64], scale: float, steps: int, threshold_delta: Fraction) -> int:
    """As if the sum of a new item were 0."""
    return THRESHOLD(np.minimum(weights, 1), scale, steps, threshold_delta)


def twice_the_threshold_delta(weights: NDArray[np.int64], scale: float, steps: int, threshold_delta: Fraction) -> int:
    """As if the other rounds had none."""
    return THRESHOLD(weights, scale, steps, min(2 * threshold_delta, Fraction(1, 2)))


def all_alike(bound: int) -> NDArray[np.int64]:
    """Weights that are not clipped: a unit of many items adds 1 to each."""
    return np.minimum(np.arange(bound + 1), 1) << item_threshold.WEIGHT_BITS


def norm_of_light_units(weights: NDArray[np.int64]) -> int:
    """The norm of a unit of one item, as if all weights were clipped by it."""
    return int(weights[1]) ** 2 // 2


def unbounded(units: pa.Array, items: NDArray[np.int32], names: pa.Array, _: int, __: bytes) -> Any:
    groups = contribution.group_by_unit(units)
    ordered = items if groups.order is None else items[groups.order]
    return item_sums.NamedPairs(groups.starts, ordered, names)


def added_per_pair(
    sums: NDArray[np.int64], starts: NDArray[np.int64], items: NDArray[np.int32], weights: NDArray[np.int64]
) -> bool:
    """A repeated pair adds again."""
    for unit in range(starts.size - 1):
        kept = items[starts[unit] : starts[unit + 1]]
        np.add.at(sums, kept, weights[min(np.unique(kept).size, weights.size - 1)])
    return True


def weighed_as_one_less(
    sums: NDArray[np.int64], starts: NDArray[np.int64], items: NDArray[np.int32], weights: NDArray[np.int64]
) -> bool:
    return bool(ADD_UNITS(sums, starts, items, np.concatenate([weights[:1], weights[1:2], weights[1:-1]])))


def never_remembered(self: PrivateItems, _: int, terms: Any, released: tuple[bytes, ...]) -> Any:
    """Draws again for a charge that was paid."""
    self._filter.charge("discover items", terms.budget.amount, terms.basis)
    return self._drawn(terms, released)


def free(self: PrivateItems, _: int, terms: Any, released: tuple[bytes, ...]) -> Any:
    """Reads and draws without a charge."""
    return self._drawn(terms, released)


def delta_alone(epsilon: float, delta: float, threshold_delta: Fraction) -> tuple[float, float]:
    """The whole delta for the budget, and the threshold for nothing."""
    return epsilon, delta


PLANTED: tuple[tuple[str, Any, str, Any, str], ...] = (
    ("items: threshold too low", private_items, "threshold_steps", lower_by_one_sigma, "items: new ones"),
    ("items: threshold of one item", private_items, "threshold_steps", for_one_item, "items: new ones"),
    ("items: new items weigh nothing", private_items, "threshold_steps", without_the_weight, "items: new ones"),
    ("items: sums without noise", private_items, "add_noise", lambda exact, *_: exact << 40, "items: law of new ones"),
    ("items: other weights than charged", item_threshold, "weights_of", all_alike, "items: noise"),
    ("items: norm of light units", private_items, "squared_norm", norm_of_light_units, "items: noise"),
    ("items: contribution unbounded", contribution, "named_block", unbounded, "items: noise"),
    ("items: a pair twice counts twice", item_sums, "_add_units", added_per_pair, "items: once"),
    ("items: weighed as one less", item_sums, "_add_units", weighed_as_one_less, "items: noise"),
    ("items: new noise on a retry", PrivateItems, "_round", never_remembered, "items: order"),
    ("items: a whole budget for each round", private_items, "ROUNDS", (Fraction(1), Fraction(1)), "items: noise"),
    (
        "items: a whole threshold delta for each round",
        private_items,
        "threshold_steps",
        twice_the_threshold_delta,
        "items: new ones",
    ),
    ("items: no charge", PrivateItems, "_round", free, "items: order"),
    ("items: delta for the budget alone", item_threshold, "without_threshold_delta", delta_alone, "items: delta"),
)
"""Each bug with the place and name of what it replaces, and the check that must notice."""
