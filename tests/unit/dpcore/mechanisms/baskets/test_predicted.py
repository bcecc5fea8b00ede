"""Predicted CPU seconds of fits of baskets, beside those that were measured."""

from __future__ import annotations

import pytest

from dpcore.mechanisms.baskets.predicted import predicted_seconds

# Items, largest basket, and CPU seconds of the fit (dpcore/decisions/work.md).
MEASURED = {
    "groceries": (169, 32, 2.4),
    "msweb": (285, 35, 5.4),
    "mushroom": (119, 23, 1.15),
    "retail": (16_470, 76, 18.6),
    "films": (2_000, 2_000, 28.3),
}


@pytest.mark.parametrize("name", MEASURED)
def test_is_within_about_a_factor_of_two(name: str) -> None:
    items, largest, seconds = MEASURED[name]
    assert 0.45 <= predicted_seconds(items, largest, 300) / seconds <= 2.2


def test_grows_with_items_and_baskets_up_to_the_popular_ones() -> None:
    assert predicted_seconds(100, 10, 300) < predicted_seconds(200, 10, 300) < predicted_seconds(200, 100, 300)
    assert predicted_seconds(100_000, 10, 300) < 2 * predicted_seconds(10_000, 10, 300)
