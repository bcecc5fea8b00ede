"""Noisy popularity: real counts stand out, also where a basket may hold far more than any does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.clipping.popularity import WIDE, noisy_popularity
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyBaskets

ITEMS, UNITS = 200, 400
HELD = np.zeros((UNITS, ITEMS), dtype=bool)
HELD[::2, 0], HELD[1::2, 1] = True, True


def popularity(bound: int, budget: Budget) -> tuple[np.ndarray, list[str]]:
    private = private_statistics(TinyBaskets(BinaryView(ITEMS), HELD, bound), budget)
    weights = noisy_popularity(private, BinaryView(ITEMS), Fraction(1))
    return weights, [charge.label for charge in private.charges]


def test_wide_baskets_are_clipped() -> None:
    """At rho = .02 the noise of plain counts has a standard deviation of 70, that of clipped ones about 8."""
    weights, labels = popularity(ITEMS, Budget.zcdp(Fraction(1, 50)))
    assert len(labels) == 2
    assert labels[1].endswith("clipped")
    assert weights[:2].min() > 100
    assert weights[2:].max() < 60


@pytest.mark.parametrize("bound", [1, WIDE - 1])
def test_narrow_baskets_are_counted_plainly(bound: int) -> None:
    _, labels = popularity(bound, Budget.zcdp(1))
    assert labels == [f"measure {Conjunctions.single_columns(BinaryView(ITEMS)).description}"]


def test_clipping_gives_units_that_hold_one_item_their_whole_weight() -> None:
    sums = ClippedSums.of(Conjunctions.single_columns(BinaryView(ITEMS)), [1.0])
    assert sums.weights[0][1] == sums.denominator
    assert (popularity(ITEMS, Budget.zcdp(100))[0][:2] > 190).all()
