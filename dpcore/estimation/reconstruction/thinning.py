"""Data thinning: one noisy measurement becomes two independent ones, so that one can judge what the other suggests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.measurement import Measurement


def thinned(measured: Sequence[Measurement], generator: Generator) -> tuple[list[Measurement], list[Measurement]]:
    """For each measurement a training part and a held-out part, whose noises are independent.

    measured: Measurements with Gaussian noise.
    generator: Draws the noise that splits them. No privacy depends on it, because it only adds noise to released
        values.

    A value y with noise of the variance v becomes y + z and y - z with z ~ N(0, v). Both have noise of the variance
    2 v, and their covariance is v - v = 0. For noise on a grid this holds approximately.

    Source: Neufeld, Dharamshi, Gao and Witten, "Data thinning for convolution-closed distributions" (2024).
    """
    splits = [generator.normal(0.0, measurement.stddev, measurement.values.size) for measurement in measured]
    training = [_with_noise(measurement, split) for measurement, split in zip(measured, splits, strict=True)]
    held_out = [_with_noise(measurement, -split) for measurement, split in zip(measured, splits, strict=True)]
    return training, held_out


def _with_noise(measurement: Measurement, added: NDArray[np.float64]) -> Measurement:
    """The measurement with noise of its own variance added."""
    return replace(measurement, values=measurement.values + added, scale=measurement.scale * math.sqrt(2))
