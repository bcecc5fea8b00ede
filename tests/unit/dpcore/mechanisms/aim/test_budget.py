"""Shares of AIM's rounds, exactly, and of its first measurements against other splits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.mechanisms.aim.budget import Annealing
from dpcore.strategies.allocation import split_by_size

PLANNED = Annealing.planned(Fraction(3, 4), 12, Fraction(1, 10), Fraction(2))


def test_planned_rounds_are_equal_and_take_the_share() -> None:
    assert PLANNED.round == Fraction(1, 16)
    assert PLANNED.select == Fraction(1, 160)


def test_growing_multiplies_both_parts() -> None:
    grown = PLANNED.grown().grown()
    assert (grown.select, grown.measure) == (4 * PLANNED.select, 4 * PLANNED.measure)


@pytest.mark.parametrize("remaining", [Fraction(1, 8), Fraction(1, 9), Fraction(1, 1000), Fraction(1, 3)])
def test_the_last_round_takes_all_that_is_not_enough_for_two(remaining: Fraction) -> None:
    limited = PLANNED.limited(remaining)
    if remaining > Fraction(1, 8):
        assert limited is PLANNED
    else:
        assert limited.round == remaining
        assert limited.select / limited.round == Fraction(1, 10)


@pytest.mark.parametrize("growth", [Fraction(2), Fraction(4), Fraction(3, 2)])
def test_growing_in_every_round_ends_with_nothing_left_and_never_with_less(growth: Fraction) -> None:
    annealing, remaining, rounds = Annealing.planned(Fraction(1), 100, Fraction(1, 10), growth), Fraction(1), 0
    while remaining:
        annealing = annealing.limited(remaining)
        remaining -= annealing.round
        annealing = annealing.grown()
        rounds += 1
        assert remaining >= 0
    assert rounds < 20


def error(cells: np.ndarray, weights: np.ndarray, parts: np.ndarray) -> float:
    """sum of weight * cells * sigma with sigma = share^(-1/2)."""
    return float((weights * cells / np.sqrt(parts)).sum())


def test_the_split_leaves_less_error_than_any_other() -> None:
    random = np.random.default_rng(0)
    cells, weights = random.integers(1, 300, 6), random.uniform(0.1, 5, 6)
    parts = np.array([float(part) for part in split_by_size(cells, weights, Fraction(1, 5))])
    best = error(cells, weights, parts)
    for _ in range(300):
        other = parts * np.exp(random.normal(0, 0.2, 6))
        assert error(cells, weights, other / other.sum() / 5) >= best * (1 - 1e-9)


@pytest.mark.parametrize("cells", [[7], [1, 1, 1], [1, 10**12], [2] * 1000])
def test_the_parts_are_positive_and_never_more_than_the_share(cells: list[int]) -> None:
    share = Fraction(1, 3)
    parts = split_by_size(np.array(cells), np.ones(len(cells)), share)
    assert len(parts) == len(cells)
    assert all(part > 0 for part in parts)
    assert share * (1 - Fraction(1, 2**25)) < sum(parts) <= share
