"""The largest distance against a slow search over all allowed tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dpcore.estimation.graphical.confidence.farthest_table import largest_distance


@pytest.mark.parametrize("seed", range(12))
def test_no_allowed_table_is_farther_than_the_largest_distance(seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = generator.integers(0, 6, 3).astype(np.float64) * generator.integers(0, 2, 3)
    values = model + generator.integers(-4, 5, 3)
    radius, low = float(generator.integers(2, 12)), float(max(0, values.sum() - 2))
    high = low + float(generator.integers(0, 5))
    bound = largest_distance(model, values, radius, low, high)
    worst = max(
        (
            np.abs(model - t).sum()
            for t in map(np.array, product(range(18), repeat=3))
            if np.abs(t - values).sum() <= radius and low <= t.sum() <= high
        ),
        default=0.0,
    )
    assert worst <= bound + 1e-9
    assert bound <= min(np.abs(model - values).sum() + radius, model.sum() + high) + 1e-9


def test_sparse_tables_gain_from_their_zeros() -> None:
    """Mostly zeros, measured with much noise: half of the triangle inequality's bound is noise that shows itself."""
    generator = np.random.default_rng(5)
    model = np.concatenate([np.full(20, 500.0), np.zeros(980)])
    z = generator.normal(0, 20, 1000)
    radius = float(np.abs(z).sum()) * 1.05
    bound = largest_distance(model, model + z, radius, model.sum() - 1000, model.sum() + 1000)
    triangle = float(np.abs(z).sum()) + radius
    assert bound < 0.6 * triangle
