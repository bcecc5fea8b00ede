from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.domain import Domain
from dpcore.measurement import GRID_BITS, Measurement, Noise, mean_absolute_noise, noise_stddev
from dpcore.queries import Marginals
from dpcore.uncertainty import half_width, of_measurements, of_model

STEP = 2.0**-GRID_BITS
SCALES = [0.05, 0.3, 0.5, 1.0, 1.7, 2.0, 9.3, 40.0]


def law(noise: Noise, scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The masses of the law on its grid, from its definition, far into the tails."""
    if noise is Noise.ROUNDED_GAUSSIAN:
        grid = np.arange(-math.ceil(10 * scale / STEP), math.ceil(10 * scale / STEP) + 1) * STEP
        return grid, ndtr((grid + STEP / 2) / scale) - ndtr((grid - STEP / 2) / scale)
    reach = math.ceil(60 * scale) + 60
    z = np.arange(-reach, reach + 1)
    with np.errstate(under="ignore"):
        mass = np.exp(-np.abs(z) / scale) if noise is Noise.LAPLACE else np.exp(-(z**2) / (2 * scale**2))
    return z.astype(np.float64), mass / mass.sum()


@pytest.mark.parametrize("scale", SCALES)
def test_the_moments_of_the_laplace_are_exact(scale: float) -> None:
    z, mass = law(Noise.LAPLACE, scale)
    assert noise_stddev(Noise.LAPLACE, scale) ** 2 == pytest.approx((z**2 * mass).sum(), abs=1e-12)
    assert mean_absolute_noise(Noise.LAPLACE, scale) == pytest.approx((np.abs(z) * mass).sum(), abs=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_the_stddev_of_the_gaussian_is_an_upper_bound_and_close_from_one_count_on(scale: float) -> None:
    z, mass = law(Noise.GAUSSIAN, scale)
    true = math.sqrt((z**2 * mass).sum())
    assert true <= noise_stddev(Noise.GAUSSIAN, scale) * (1 + 1e-12)
    if scale >= 1:
        assert true == pytest.approx(noise_stddev(Noise.GAUSSIAN, scale), rel=1e-3)
        assert mean_absolute_noise(Noise.GAUSSIAN, scale) == pytest.approx((np.abs(z) * mass).sum(), rel=0.1)


@pytest.mark.parametrize("scale", SCALES)
def test_the_moments_of_the_rounded_gaussian_are_right_to_the_last_digits(scale: float) -> None:
    z, mass = law(Noise.ROUNDED_GAUSSIAN, scale)
    assert noise_stddev(Noise.ROUNDED_GAUSSIAN, scale) == pytest.approx(math.sqrt((z**2 * mass).sum()), rel=1e-9)
    assert mean_absolute_noise(Noise.ROUNDED_GAUSSIAN, scale) == pytest.approx((np.abs(z) * mass).sum(), rel=1e-4)


def coverage(noise: Noise, scale: float, width: float) -> float:
    z, mass = law(noise, scale)
    return float(mass[np.abs(z) <= width].sum())


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_intervals_cover_at_every_scale(noise: Noise, confidence: float) -> None:
    largest, sizes = (2, 50) if noise is Noise.ROUNDED_GAUSSIAN else (100, 300)  # A thousand times as many masses.
    for scale in np.concatenate([np.geomspace(0.02, 0.5, 200), np.geomspace(0.5, largest, sizes)]).tolist():
        assert coverage(noise, scale, half_width(noise, scale, confidence)) >= confidence


@pytest.mark.parametrize("scale", SCALES)
def test_the_interval_of_the_laplace_is_the_smallest(scale: float) -> None:
    width = half_width(Noise.LAPLACE, scale)
    assert width == int(width)
    if width > 0:
        assert coverage(Noise.LAPLACE, scale, width - 1) < 0.95


@pytest.mark.parametrize("scale", [1.0, 1.7, 9.3, 40.0])
def test_the_interval_of_the_gaussian_is_at_most_a_count_too_wide(scale: float) -> None:
    assert coverage(Noise.GAUSSIAN, scale, half_width(Noise.GAUSSIAN, scale) - 1) < 0.95


@pytest.mark.parametrize("scale", SCALES)
def test_the_interval_of_the_rounded_gaussian_is_at_most_a_step_too_wide(scale: float) -> None:
    assert coverage(Noise.ROUNDED_GAUSSIAN, scale, half_width(Noise.ROUNDED_GAUSSIAN, scale) - STEP) < 0.95


@pytest.mark.parametrize("noise", list(Noise))
def test_next_to_no_noise_has_a_width_and_a_stddev(noise: Noise) -> None:
    """exp(-1/b) is 0 in doubles below b = 1/745."""
    assert half_width(noise, 1e-4) < 1
    assert noise_stddev(noise, 1e-4) < 1e-3


def test_measurements_become_answers_in_their_order() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    measured = [
        Measurement(Marginals(domain, (("b",),)), np.array([1.0, -2.0, 3.0]), Noise.LAPLACE, 5.0),
        Measurement(Marginals(domain, (("a",),)), np.array([4.0, 5.0]), Noise.GAUSSIAN, 2.0),
        Measurement(Marginals(domain, (("a",),)), np.array([0.5, 5.0]), Noise.ROUNDED_GAUSSIAN, 3.0),
    ]
    answers = of_measurements(measured)
    assert answers.values.tolist() == [1, -2, 3, 4, 5, 0.5, 5]
    assert np.allclose(answers.stddev, [noise_stddev(Noise.LAPLACE, 5.0)] * 3 + [2.0] * 2 + [3.0] * 2)
    widths = np.repeat([half_width(measurement.noise, measurement.scale) for measurement in measured], [3, 2, 2])
    assert np.array_equal(answers.lower, answers.values - widths)
    assert np.array_equal(answers.upper, answers.values + widths)
    assert answers.measured


def test_a_model_claims_no_error_bar() -> None:
    answers = of_model(np.array([1.0, 2.5]))
    assert answers.values.tolist() == [1.0, 2.5]
    assert np.isnan([answers.stddev, answers.lower, answers.upper]).all()
    assert not answers.measured
