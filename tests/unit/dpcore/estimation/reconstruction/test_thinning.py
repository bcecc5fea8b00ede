"""Thinned measurements: their mean is the measurement, and their noises are independent."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.reconstruction.thinning import thinned
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

QUERIES = Marginals(Domain(("a",), (40_000,)), (("a",),))
STDDEV = 3.0


def noisy() -> Measurement:
    values = np.random.default_rng(1).normal(0.0, STDDEV, QUERIES.size)
    return Measurement(QUERIES, values, Noise.GAUSSIAN, STDDEV)


@pytest.mark.parametrize("added", [1.0, 0.5])
def test_the_mean_of_both_parts_weighted_by_precision_is_the_measurement(added: float) -> None:
    measurements = [noisy(), noisy()]
    training, held_out = thinned(measurements, np.random.default_rng(2), added)
    for whole, one, other in zip(measurements, training, held_out, strict=True):
        np.testing.assert_allclose((one.values + added**2 * other.values) / (1 + added**2), whole.values, atol=1e-9)
        assert one.queries is other.queries is whole.queries
        assert one.noise is other.noise is whole.noise
    assert not np.array_equal(training[0].values, training[1].values)


@pytest.mark.parametrize(("added", "factors"), [(1.0, (2, 2)), (0.5, (5 / 4, 5))])
def test_the_parts_have_more_variance_and_independent_noise(added: float, factors: tuple[float, float]) -> None:
    (one,), (other,) = thinned([noisy()], np.random.default_rng(2), added)
    for part, factor in zip((one, other), factors, strict=True):
        assert part.stddev == pytest.approx(STDDEV * factor**0.5)
        assert part.values.std() == pytest.approx(part.stddev, rel=0.02)
    assert abs(float(np.corrcoef(one.values, other.values)[0, 1])) < 0.02


def test_the_same_generator_splits_in_the_same_way() -> None:
    (one,), _ = thinned([noisy()], np.random.default_rng(2))
    (again,), _ = thinned([noisy()], np.random.default_rng(2))
    np.testing.assert_array_equal(one.values, again.values)
