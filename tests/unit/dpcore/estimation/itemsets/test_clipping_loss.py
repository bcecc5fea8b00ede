"""The curve of expected losses against the law on single answers, which computes the same without bins."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.clipping.expected_loss import expected_loss
from dpcore.estimation.itemsets.clipping_loss import loss_curve

SATISFIED = np.array([1.0, 4.0, 40.0, 150.0])
UNITS = np.array([500.0, 200.0, 80.0, 10.0])
LOST = np.array([0.0, 0.1, 0.5, 0.8])


def test_it_is_nearly_the_loss_of_each_answer() -> None:
    counts = np.random.default_rng(0).pareto(1.0, 400) * 10 + 1
    slow = expected_loss(counts, SATISFIED, UNITS, LOST)
    fast = loss_curve(counts, SATISFIED, UNITS, LOST).at(counts)
    assert fast == pytest.approx(slow, rel=0.05, abs=0.01)
    assert slow.max() > 10  # The law loses something here.


def test_losses_sum_to_what_units_lose() -> None:
    """A unit of k itemsets loses k times its lost part, as long as its probabilities can sum to k."""
    counts = np.random.default_rng(1).uniform(20, 200, 300)
    losses = loss_curve(counts, SATISFIED, UNITS, LOST).at(counts)
    assert losses.sum() == pytest.approx((SATISFIED * UNITS * LOST).sum(), rel=0.05)


@pytest.mark.parametrize("lost", [np.zeros(4), LOST])
def test_nothing_is_lost_where_nothing_is_clipped_or_counted(lost: np.ndarray) -> None:
    counts = np.ones(5) if not lost.any() else -np.ones(5)
    assert not loss_curve(counts, SATISFIED, UNITS, lost).at(counts).any()


def test_negative_counts_lose_nothing() -> None:
    curve = loss_curve(np.tile([-5.0, 10.0, 100.0], 200), SATISFIED, UNITS, LOST)
    assert curve.at(np.array([-5.0, 0.0]))[0] == 0.0
    assert curve.at(np.array([100.0]))[0] > curve.at(np.array([10.0]))[0] > 0
