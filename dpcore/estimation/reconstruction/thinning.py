"""Data thinning: one noisy measurement becomes two independent ones, so that one can judge what the other suggests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.measurement import Measurement


def thinned(
    measured: Sequence[Measurement], generator: Generator, added: float = 1.0
) -> tuple[list[Measurement], list[Measurement]]:
    """For each measurement a training part and a held-out part, whose noises are independent.

    measured: Measurements with Gaussian noise.
    generator: Draws the noise that splits them. No privacy depends on it, because it only adds noise to released
        values.
    added: Standard deviation a of the noise that the training part gets, as a multiple of what it has; above 0.

    A value y with noise of the variance v becomes y + a z and y - z / a with z ~ N(0, v). Their noises have the
    variances (1 + a^2) v and (1 + 1 / a^2) v, and the covariance v - v = 0. For noise on a grid this holds
    approximately. The smaller a, the more the training part is like the values, and the less the held-out part tells.

    Source: Neufeld, Dharamshi, Gao and Witten, "Data thinning for convolution-closed distributions" (2024).
    """
    draws = [generator.normal(0.0, measurement.stddev, measurement.values.size) for measurement in measured]
    pairs = list(zip(measured, draws, strict=True))
    training = [_with_noise(measurement, drawn, added) for measurement, drawn in pairs]
    return training, [_with_noise(measurement, drawn, -1 / added) for measurement, drawn in pairs]


def _with_noise(measurement: Measurement, drawn: NDArray[np.float64], factor: float) -> Measurement:
    """The measurement with so many times the drawn noise added, which has the variance of its own."""
    return replace(
        measurement, values=measurement.values + factor * drawn, scale=measurement.scale * math.hypot(1, factor)
    )
