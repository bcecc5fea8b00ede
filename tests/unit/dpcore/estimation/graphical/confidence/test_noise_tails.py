"""Tails of noise against simulation, exact moments and the laws themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcore.estimation.graphical.confidence.noise_tails import (
    l1_of_gaussians,
    l1_of_laplaces,
    l1_of_sub_gaussians,
    root_of_squares,
    signed_gaussians,
    signed_laplaces,
    sum_of_laplaces,
)
from dpcore.measurement import Noise
from tests.support.drawn_noise import drawn

DRAWS = 20_000
TAIL = 0.05
ALLOWED = TAIL + 4 * math.sqrt(TAIL / DRAWS)  # Passed with a chance below 1e-4 by a law that meets TAIL.


def over(values: NDArray[np.float64], bound: float) -> float:
    return float((values >= bound).mean())


@pytest.mark.parametrize("cells", [2, 10, 100])
def test_the_l1_norm_of_gaussians_passes_its_bound_as_seldom_as_asked(cells: int) -> None:
    norms = np.abs(np.random.default_rng(cells).normal(size=(DRAWS, cells))).sum(axis=1)
    bound = l1_of_gaussians(cells, TAIL)
    assert over(norms, bound) <= ALLOWED
    assert bound <= 1.35 * np.quantile(norms, 1 - TAIL)
    thesis = math.sqrt(2 * math.log(2)) * cells + math.sqrt(-2 * cells * math.log(TAIL))
    assert bound < thesis
    assert over(norms, cells * math.sqrt(2 / math.pi)) > ALLOWED  # The mean alone is refused by the same test.


@pytest.mark.parametrize(("cells", "summands"), [(5, 1), (60, 1), (8, 6), (40, 2)])
def test_the_l1_norm_of_sums_of_laplaces_passes_its_bound_as_seldom_as_asked(cells: int, summands: int) -> None:
    sums = np.random.default_rng(summands).laplace(size=(DRAWS, cells, summands)).sum(axis=2)
    bound = l1_of_laplaces(cells, summands, TAIL)
    assert over(np.abs(sums).sum(axis=1), bound) <= ALLOWED
    assert bound <= 1.5 * np.quantile(np.abs(sums).sum(axis=1), 1 - TAIL)
    assert over(np.abs(sums[:, 0]), sum_of_laplaces(summands, TAIL)) <= ALLOWED


@pytest.mark.parametrize("t", [0.01, 0.2, 0.5, 0.9, 0.99])
def test_the_moment_of_a_mixture_is_at_least_that_of_an_absolute_laplace(t: float) -> None:
    mean = t * t / (1 - t * t)
    bound, exact = (1 + math.erf(math.sqrt(mean))) / (1 - t * t), 1 / (1 - t)
    assert exact <= bound <= 1.07 * exact


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.5, 0.69, 0.71, 0.8, 1.0, 1.3, 3.0, 50.0])
def test_whole_noise_can_be_drawn_within_one_of_continuous_noise(scale: float) -> None:
    m = np.arange(1, math.ceil(12 * scale) + 2, dtype=np.float64)
    ratio = math.exp(-1 / scale)
    laplace = ratio**m / (1 + ratio)
    assert (ratio**m / 2 <= laplace).all()
    assert (laplace <= ratio ** (m - 1) / 2 * (1 + 1e-12)).all()
    reach = np.arange(1, math.ceil(40 * scale) + 40)
    mass = np.exp(-((reach / scale) ** 2) / 2)
    tails = np.array([mass[int(one) - 1 :].sum() for one in m]) / (1 + 2 * mass.sum())
    assert (ndtr(-m / scale) <= tails * (1 + 1e-12)).all()
    assert (tails <= ndtr(-(m - 1) / scale) * (1 + 1e-12)).all()
    if scale == 3.0:  # Half a step would not do close to 0.
        assert (tails > ndtr(-(m - 0.4) / scale)).any()


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("scale", [1.5, 12.0])
def test_signed_sums_of_noise_pass_their_bound_as_seldom_as_asked(noise: Noise, scale: float) -> None:
    cells = 20
    sums = drawn(noise, scale, (DRAWS, cells), np.random.default_rng(3)).sum(axis=1)
    laplace = noise is Noise.LAPLACE
    bound = signed_laplaces(cells, scale, TAIL) if laplace else scale * signed_gaussians(cells, TAIL)
    assert over(sums, bound) <= ALLOWED
    assert bound <= 1.7 * np.quantile(sums, 1 - TAIL)


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])
@pytest.mark.parametrize("scale", [0.4, 1.5, 12.0])
@pytest.mark.parametrize("error", [0.0, 0.3, 40.0])
@pytest.mark.parametrize("cells", [1, 50])
def test_the_bound_from_squares_holds_as_often_as_asked(noise: Noise, scale: float, error: float, cells: int) -> None:
    z = drawn(noise, scale, (DRAWS // 4, cells), np.random.default_rng(5))
    seen = ((error + z) ** 2).sum(axis=1)
    bounds = np.array([root_of_squares(cells, one, scale, TAIL, noise is Noise.GAUSSIAN) for one in seen])
    missed = float((bounds < error * math.sqrt(cells) * (1 - 1e-3)).mean())
    assert missed <= TAIL + 4 * math.sqrt(TAIL / len(seen))


def test_squares_tell_a_small_error_from_noise_where_signs_do_not() -> None:
    cells, scale = 4000, 12.0
    z = drawn(Noise.ROUNDED_GAUSSIAN, scale, cells, np.random.default_rng(6))
    squares = math.sqrt(cells) * root_of_squares(cells, float(z @ z), scale, TAIL, False)
    signs = float(np.abs(z).sum()) + scale * signed_gaussians(cells, TAIL)
    assert 0 < squares < 0.5 * signs


def test_unions_over_signs_hold_for_any_sub_gaussian_noise() -> None:
    flips = np.random.default_rng(7).choice([-1.0, 1.0], (DRAWS, 4)).sum(axis=1)
    assert over(np.abs(flips), l1_of_sub_gaussians(1, TAIL) * 2) <= ALLOWED
    assert l1_of_sub_gaussians(1, TAIL) == pytest.approx(math.sqrt(2 * math.log(2 / TAIL)))
    assert l1_of_sub_gaussians(1, TAIL) > -float(ndtri(TAIL / 2))


@pytest.mark.parametrize("bound", [l1_of_gaussians, l1_of_sub_gaussians, signed_gaussians])
def test_bounds_grow_with_confidence_and_cells(bound) -> None:  # type: ignore[no-untyped-def]
    assert bound(10, 0.01) > bound(10, 0.1) > bound(5, 0.1) > 0
