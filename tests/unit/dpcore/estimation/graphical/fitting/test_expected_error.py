"""The error that a measurement leaves, against simulated cells with the prior that fits assume."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.estimation.graphical.fitting.expected_error import expected_errors, scale_of_distance


@pytest.mark.parametrize("count", [0.5, 20.0, 3000.0])
@pytest.mark.parametrize("stddev", [0.3, 10.0, 400.0])
def test_it_is_the_mean_error_of_the_best_estimate(count: float, stddev: float) -> None:
    """A cell of prior variance e^1.5, measured with noise: its posterior mean is off by this much."""
    random = np.random.default_rng(0)
    prior = count**1.5
    cells = random.normal(count, math.sqrt(prior), 40_000)
    seen = cells + random.normal(0, stddev, cells.size)
    best = (seen * prior + count * stddev**2) / (prior + stddev**2)
    (found,) = expected_errors(np.array([count]), stddev)
    assert found == pytest.approx(np.abs(best - cells).mean(), rel=0.03)


def test_a_large_cell_is_left_with_the_noise_and_an_empty_one_with_next_to_nothing() -> None:
    found = expected_errors(np.array([0.0, 1e9]), 50.0)
    noise = math.sqrt(2 / math.pi) * 50
    assert found[1] == pytest.approx(noise, rel=1e-3)
    assert 0 < found[0] < 0.05
    assert (expected_errors(np.linspace(0, 1e9, 1000), 50.0) <= noise).all()


def test_less_noise_and_smaller_cells_leave_less() -> None:
    counts = np.geomspace(0.02, 1e6, 50)
    low, high = expected_errors(counts, 5.0), expected_errors(counts, 10.0)
    assert (low < high).all()
    assert (np.diff(low) > 0).all()


@pytest.mark.parametrize("distance", [700.0, 5_000.0])
def test_a_measurement_that_is_all_noise_leaves_the_distance(distance: float) -> None:
    counts = np.geomspace(0.02, 200.0, 40)
    scale = scale_of_distance(counts, distance)
    assert expected_errors(counts, 1e9, scale).sum() == pytest.approx(distance)
    assert expected_errors(counts, 50.0, scale).sum() < distance
    assert expected_errors(counts, 50.0, scale).sum() > expected_errors(counts, 50.0).sum()


def test_a_small_distance_leaves_the_usual_scale() -> None:
    assert scale_of_distance(np.geomspace(0.02, 200.0, 40), 5.0) == 1.0
