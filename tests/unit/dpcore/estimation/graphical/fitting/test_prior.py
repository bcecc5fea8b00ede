"""What is learnt about how far components lie from a model, on components whose spread is planted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.prior import (
    LARGEST_PRIOR_SCALE,
    MIN_EXPECTED,
    learn_prior_scale,
    prior_variances,
)

DOMAIN = Domain.of({"a": 9, "b": 8, "c": 7, "one": 1})
PAIRS: list[Clique] = [("a", "b"), ("a", "c"), ("b", "c")]


def centred(table: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


Planted = tuple[list[LinearMeasurement], list[NDArray[np.float64]], list[NDArray[np.float64]]]


def planted(spread: float, stddev: float, seed: int, expected: float = 30.0, repeats: int = 20) -> Planted:
    """Components, how far each lies from a model, and what the base expects: a deviation of the prior, and noise."""
    generator = np.random.default_rng(seed)
    parts, away, counts = [], [], []
    for clique in PAIRS * repeats:
        shape = DOMAIN.shape(clique)
        count = np.full(shape, expected)
        signal = generator.normal(size=shape) * np.sqrt(prior_variances(count, spread))
        distance = centred(signal + generator.normal(0, stddev, shape)).ravel()
        parts.append(LinearMeasurement(clique, np.zeros(distance.size), stddev**-2, centred=True))
        away.append(distance)
        counts.append(count.ravel())
    return parts, away, counts


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("stddev", [1.0, 5.0])
def test_it_is_near_the_planted_one(spread: float, stddev: float) -> None:
    assert learn_prior_scale(DOMAIN, *planted(spread, stddev, 1)) == pytest.approx(spread, rel=0.15)


def test_measurements_of_different_noise_tell_one_spread() -> None:
    fine, rough = planted(0.5, 2.0, 1), planted(0.5, 40.0, 2)
    together = [[*one, *other] for one, other in zip(fine, rough, strict=True)]
    assert learn_prior_scale(DOMAIN, *together) == pytest.approx(0.5, rel=0.15)  # type: ignore[arg-type]


def test_it_never_passes_the_largest() -> None:
    assert learn_prior_scale(DOMAIN, *planted(100.0, 5.0, 1)) == LARGEST_PRIOR_SCALE


def test_noise_alone_leaves_little() -> None:
    """Less than what one standard deviation of the noise could hide, and never 0."""
    found = [learn_prior_scale(DOMAIN, *planted(0.0, 10.0, seed)) for seed in range(20)]
    assert all(0 < spread < 0.1 for spread in found)


def test_distances_below_the_noise_still_give_a_positive_spread() -> None:
    parts, away, counts = planted(0.0, 10.0, 1, repeats=200)
    assert 0 < learn_prior_scale(DOMAIN, parts, [0.0 * one for one in away], counts) < 0.05


def test_without_evidence_it_is_the_largest() -> None:
    assert learn_prior_scale(DOMAIN, [], [], []) == LARGEST_PRIOR_SCALE
    of_one_value = LinearMeasurement(("one",), np.zeros(1), 1.0, centred=True)
    assert learn_prior_scale(DOMAIN, [of_one_value], [np.zeros(1)], [np.ones(1)]) == LARGEST_PRIOR_SCALE


def test_little_evidence_counts_little() -> None:
    """Noise far larger than all that the prior allows: the values tell nothing."""
    assert learn_prior_scale(DOMAIN, *planted(0.1, 1e5, 3)) > 0.9 * LARGEST_PRIOR_SCALE


def test_it_is_the_ratio_of_moments() -> None:
    """Two parts by hand."""
    parts = [
        LinearMeasurement(("a", "b"), np.zeros(72), 0.5, centred=True),
        LinearMeasurement(("c",), np.zeros(7), 2.0, centred=True),
    ]
    away, counts = [np.full(72, 20.0), np.full(7, -9.0)], [np.full(72, 4.0), np.array([9.0] * 6 + [0.0])]
    freedom = 8 * 7 + 6
    signal = 0.5 * 72 * 400 + 2 * 7 * 81 - freedom
    prior = 0.5 * 56 * 8 + 2 * 6 * (6 * 27 + MIN_EXPECTED**1.5) / 7
    trust = math.sqrt(2 * freedom)
    wanted = (signal + trust * LARGEST_PRIOR_SCALE) / (prior + trust)
    assert learn_prior_scale(DOMAIN, parts, away, counts) == pytest.approx(min(wanted, LARGEST_PRIOR_SCALE), rel=1e-12)
    smaller = [one / 8 for one in away]
    wanted = ((signal + freedom) / 64 - freedom + trust * LARGEST_PRIOR_SCALE) / (prior + trust)
    assert wanted < LARGEST_PRIOR_SCALE
    assert learn_prior_scale(DOMAIN, parts, smaller, counts) == pytest.approx(wanted, rel=1e-12)


def test_prior_variances_lie_between_independent_rows_and_proportions() -> None:
    np.testing.assert_allclose(prior_variances(np.array([4.0, 100.0]), 2.0), [16, 2000])
    np.testing.assert_allclose(prior_variances(np.array([4.0, 100.0]), np.array([1.0, 3.0])), [8, 3000])


def test_empty_cells_have_a_little_room() -> None:
    assert prior_variances(np.array([0.0]), 1.0).tolist() == prior_variances(np.array([MIN_EXPECTED]), 1.0).tolist()
    assert prior_variances(np.array([0.0]), 1.0)[0] > 0


def test_the_smallest_scale_is_a_thousandth() -> None:
    """Components that agree with the model to the last digit, measured without noise: a fit still needs some prior."""
    parts, away, counts = planted(0.3, 1e-6, 1)
    assert learn_prior_scale(DOMAIN, parts, [np.zeros_like(distance) for distance in away], counts) == 1e-3
