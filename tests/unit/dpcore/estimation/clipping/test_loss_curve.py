"""What clipping takes from answers, and how much of it the curve gives back."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.clipping.activity import activities
from dpcore.estimation.clipping.loss_curve import LossCurve, Satisfied, loss_curve, satisfied_units
from dpcore.estimation.clipping.support import Support, position

SUPPORT = Support.up_to(20_000)


def test_the_activity_gives_the_number_of_satisfied_queries() -> None:
    answers = np.random.default_rng(0).pareto(1.5, 400) * 50 + 1
    for satisfied in (3.0, 40.0, 200.0):
        (activity,) = activities(answers, np.array([satisfied]))
        assert -np.expm1(-activity * answers).sum() == pytest.approx(satisfied, rel=0.02)


def test_points_are_where_the_position_says() -> None:
    for index in (0, 3, 64, 65, 100):
        assert position(float(SUPPORT.points[index])) == pytest.approx(index, abs=1e-9)
    assert SUPPORT.points[-1] >= 20_000


def test_nothing_is_lost_where_no_unit_is_clipped() -> None:
    nobody = Satisfied(np.array([1.0, 2.0]), np.array([4.0, 4.0]), np.zeros(2))
    curve = loss_curve(np.array([5.0, 0.0, 2.0]), nobody, SUPPORT)
    assert curve.clipped.tolist() == SUPPORT.points.tolist()


def test_the_curve_and_its_inverse() -> None:
    curve = LossCurve(np.array([0.0, 10.0, 20.0]), np.array([0.0, 5.0, 14.0]))
    assert curve.clipped_of(np.array([4.0, 15.0])).tolist() == [2.0, 9.5]
    assert curve.counts_of(np.array([-3.0, 2.0, 9.5])).tolist() == [0.0, 4.0, 15.0]
    assert curve.loss_of(np.array([20.0])).tolist() == [6.0]


@pytest.mark.parametrize("seed", range(3))
def test_nearly_all_of_the_loss_of_a_made_dataset_is_given_back(seed: int) -> None:
    """Units of log-normal activity hold queries of skewed popularity."""
    generator = np.random.default_rng(seed)
    popularity = generator.pareto(1.0, 300) + 0.05
    held = generator.random((4000, 300)) < -np.expm1(-np.outer(np.exp(generator.normal(-5.0, 1.5, 4000)), popularity))
    satisfied = held.sum(axis=1)
    weights = np.minimum(1.0, 4.0 / np.sqrt(np.maximum(satisfied, 1)))
    exact, clipped = held.sum(axis=0).astype(float), weights @ held
    numbers, units = np.unique(satisfied[satisfied > 0], return_counts=True)
    lost = 1 - np.minimum(1.0, 4.0 / np.sqrt(numbers))
    curve = loss_curve(clipped, Satisfied(numbers.astype(float), units.astype(float), lost), SUPPORT)
    before, after = exact - clipped, np.abs(exact - curve.counts_of(clipped))
    assert before.max() > 50
    assert after.max() < 0.2 * before.max()
    assert after.mean() < 0.2 * before.mean()


def cells_of(satisfied: np.ndarray, count: int) -> np.ndarray:  # type: ignore[type-arg]
    numbers = np.floor(np.log2(satisfied[satisfied > 0])).astype(int)
    return np.bincount(numbers, minlength=count).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_cells_are_cleaned_without_losing_the_tail_or_filling_empty_ones(seed: int) -> None:
    """Without cleaning, noise in the last cells, with 10,000 satisfied queries a unit, would be most of the sum."""
    generator = np.random.default_rng(seed)
    satisfied = np.exp(generator.normal(1.0, 1.2, 5000)).astype(int)
    cells = cells_of(satisfied, 15)
    numbers = 2.0 ** (np.arange(15)[:, None] + (np.arange(4) + 0.5) / 4)
    kept = np.minimum(1.0, 3.0 / np.sqrt(numbers))
    total = float((satisfied * np.minimum(1.0, 3.0 / np.sqrt(np.maximum(satisfied, 1)))).sum())
    noisy = cells + generator.normal(0, 25.0, 15)
    units = satisfied_units(noisy, 25.0, numbers, kept, total + generator.normal(0, 500.0), 500.0)
    loss = float(units.units @ (units.numbers * units.lost))
    exact = float((satisfied * (1 - np.minimum(1.0, 3.0 / np.sqrt(np.maximum(satisfied, 1))))).sum())
    raw = float(np.maximum(noisy, 0) @ (numbers * (1 - kept)).mean(axis=1))
    assert abs(loss - exact) < 0.5 * exact
    assert abs(raw - exact) > 2 * exact


def test_a_cell_above_the_last_occupied_one_has_at_most_an_eighth_of_the_cell_before_it() -> None:
    """Three cells together are no more than the noise could be, although each asks for more than an eighth."""
    numbers = 2.0 ** (np.arange(4)[:, None] + (np.arange(4) + 0.5) / 4)
    total = float(np.array([900.0, 330.0, 0.0, 0.0]) @ numbers.mean(axis=1))
    units = satisfied_units(np.array([900.0, 300.0, 100.0, 90.0]), 100.0, numbers, np.ones((4, 4)), total, 1e4)
    cells = np.bincount(np.floor(np.log2(units.numbers)).astype(int), weights=units.units, minlength=4)
    assert 0 < cells[2] <= cells[1] / 8 * (1 + 1e-9)
    assert cells[3] <= cells[2] / 8 * (1 + 1e-9)


def test_units_move_within_their_cells_if_the_measured_total_asks_for_it() -> None:
    """All units satisfy 130 of the numbers 128 to 255, so that the even distribution has too large a total."""
    numbers = 2.0 ** (np.arange(9)[:, None] + (np.arange(4) + 0.5) / 4)
    cells = np.zeros(9)
    cells[7] = 1000.0
    total = 1000.0 * 130.0
    units = satisfied_units(cells, 1.0, numbers, np.ones_like(numbers), total, 1.0)
    assert units.numbers @ units.units == pytest.approx(total, rel=0.12)
    assert numbers[7].mean() * 1000 > 1.3 * total


def test_dense_data_whose_heaviest_units_satisfy_nearly_all_queries() -> None:
    """A third of the units satisfies 9 in 10 of the queries, and loses three quarters of each."""
    generator = np.random.default_rng(3)
    held = generator.random((3000, 200)) < np.repeat([0.9, 0.1, 0.02], 1000)[:, None]
    satisfied = held.sum(axis=1)
    weights = np.minimum(1.0, 3.4 / np.sqrt(np.maximum(satisfied, 1)))
    exact, clipped = held.sum(axis=0).astype(float), weights @ held
    numbers, units = np.unique(satisfied[satisfied > 0], return_counts=True)
    lost = 1 - np.minimum(1.0, 3.4 / np.sqrt(numbers))
    curve = loss_curve(clipped, Satisfied(numbers.astype(float), units.astype(float), lost), SUPPORT)
    assert (exact - clipped).mean() > 600
    assert np.abs(exact - curve.counts_of(clipped)).mean() < 60
