"""Preferences: their preferred record has the chances that were asked for."""

from __future__ import annotations

import numpy as np

from dpcore.domain import BinaryView
from dpcore.oracles import fill
from dpcore.oracles.ties import preferred_record

GROUPS = BinaryView(5, ((0, 2), (2, 5)))
DRAWS = 20_000
TOLERANCE = 5 * 0.5 / DRAWS**0.5  # Five standard deviations: a right law fails once in 1.7 million.


def frequencies(view: BinaryView, chances: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    records = [preferred_record(view, fill.draw_preferences(view, chances, generator)) for _ in range(DRAWS)]
    return np.mean(records, axis=0)


def test_columns_of_baskets_come_with_their_chances() -> None:
    chances = np.array([0.0, 0.02, 0.5, 0.97, 1.0])
    found = frequencies(BinaryView(5), chances, 1)
    assert np.abs(found - chances).max() < TOLERANCE
    assert (found[0], found[-1]) == (0.0, 1.0)


def test_values_of_a_group_come_with_their_chances() -> None:
    chances = np.array([0.3, 0.7, 0.0, 0.9, 0.1])
    found = frequencies(GROUPS, chances, 2)
    assert np.abs(found - chances).max() < TOLERANCE
    assert found[2] == 0.0


def test_the_values_that_are_left_share_the_chances_of_the_others() -> None:
    """A restricted group keeps the ratios of its chances: 0.2 to 0.1 where the value of 0.7 is taken away."""
    generator = np.random.default_rng(3)
    chances = np.array([0.5, 0.5, 0.7, 0.2, 0.1])
    left = [fill.draw_preferences(GROUPS, chances, generator)[3:].argmax() == 0 for _ in range(DRAWS)]
    assert abs(np.mean(left) - 2 / 3) < TOLERANCE


def test_uniform_chances() -> None:
    assert fill.uniform(GROUPS).tolist() == [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3]
    assert fill.uniform(BinaryView(2)).tolist() == [0.5, 0.5]
