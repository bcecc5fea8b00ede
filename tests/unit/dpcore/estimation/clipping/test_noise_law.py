"""Tails of the noise, against the laws themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.estimation.clipping.noise_law import NoiseLaw


def test_the_tail_of_the_discrete_laplace_is_its_sum() -> None:
    law = NoiseLaw(laplace=True, scale=3.0, step=0.5)
    ratio = math.exp(-0.5 / 3.0)
    steps = np.arange(-2000, 2001)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(steps)
    for step in (-7, -1, 0, 1, 2, 9):
        wanted = mass[steps >= step].sum()
        assert law.upper_tail(np.array([step * 0.5]))[0] == pytest.approx(wanted, rel=1e-9)


def test_the_tail_of_the_rounded_gaussian_is_that_of_the_gaussian_half_a_step_before() -> None:
    law = NoiseLaw(laplace=False, scale=2.0, step=1.0)
    wanted = 0.5 * math.erfc((3.0 - 0.5) / 2.0 / math.sqrt(2))
    assert law.upper_tail(np.array([3.0]))[0] == pytest.approx(wanted, rel=1e-12)
