"""Noisy answers of the kernel. They are public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import ClippedSums, Marginals, Measurable, Products

GRID_BITS = 10  # The rounded Gaussian is rounded to multiples of 2^-GRID_BITS counts.
ERROR_STEPS = 256  # Steps per count of the integer distances in ``NoisyErrors``.
_STEP = 2.0**-GRID_BITS


class Noise(StrEnum):
    """Laws of exact additive noise.

    LAPLACE: Discrete Laplace on whole counts.
    GAUSSIAN: Discrete Gaussian on whole counts.
    ROUNDED_GAUSSIAN: N(0, sigma^2), rounded to multiples of 2^-GRID_BITS counts.
    """

    LAPLACE = "discrete_laplace"
    GAUSSIAN = "discrete_gaussian"
    ROUNDED_GAUSSIAN = "rounded_gaussian"


@dataclass(frozen=True, eq=False)
class Measurement:
    """Answers to queries, with noise drawn by the kernel.

    The answers to products and to clipped sums are integers divided by a denominator. For these, noise is drawn in
    steps of 1 / ``denominator``, while ``values`` and ``scale`` are in whole units.

    queries: The queries that were measured.
    values: Exact answers plus noise in counts, float64 [queries.size]; they may be negative. They are multiples of 1 /
        denominator, or for the rounded Gaussian of 2^-GRID_BITS / denominator.
    noise: Law of the noise.
    scale: Scale of the noise in counts: b of the discrete Laplace (mass proportional to exp(-|z|/b)), or sigma of a
        Gaussian.
    """

    queries: Measurable
    values: NDArray[np.float64]
    noise: Noise
    scale: float

    @property
    def denominator(self) -> int:
        """Number by which the integer answers are divided: 1 except for products and clipped sums."""
        return self.queries.denominator if isinstance(self.queries, Products | ClippedSums) else 1

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise in each value, in counts."""
        return noise_stddev(self.noise, self.scale * self.denominator) / self.denominator


@dataclass(frozen=True, eq=False)
class NoisyErrors:
    """L1 distances between exact marginals and a public estimate, with noise drawn by the kernel.

    queries: The marginals; each has one distance.
    values: Noisy distances in counts, float64 [cliques]; they may be negative. They are multiples of 1/256, or of 2^-18
        for the rounded Gaussian.
    noise: Law of the noise, which is drawn in steps of 1/256 counts.
    scale: Scale of the noise in counts: b of the discrete Laplace, or sigma of a Gaussian.
    """

    queries: Marginals
    values: NDArray[np.float64]
    noise: Noise
    scale: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise in each value, in counts."""
        return noise_stddev(self.noise, self.scale * ERROR_STEPS) / ERROR_STEPS


def noise_stddev(noise: Noise, scale: float) -> float:
    """Standard deviation of a law of noise, in the unit of its scale.

    For the discrete Gaussian this is sigma, an upper bound. For the rounded Gaussian, rounding to steps of h adds
    h^2 / 12 to the variance, up to a relative error of exp(-2 (pi sigma / h)^2), which is below 1e-12 for sigma >= 2 h.
    """
    if noise is Noise.GAUSSIAN:
        return scale
    if noise is Noise.ROUNDED_GAUSSIAN:
        return math.hypot(scale, _STEP / math.sqrt(12.0))
    ratio = math.exp(-1.0 / scale)
    return math.sqrt(2.0 * ratio) / -math.expm1(-1.0 / scale)


def mean_absolute_noise(noise: Noise, scale: float) -> float:
    """Expected absolute value of a law of noise, in the unit of its scale.

    It is sigma (2 / pi)^(1/2) for the Gaussians (up to discretisation), and 2 r / (1 - r^2) with r = exp(-1/b) for the
    discrete Laplace.
    """
    if noise is not Noise.LAPLACE:
        return scale * math.sqrt(2.0 / math.pi)
    return 2.0 * math.exp(-1.0 / scale) / -math.expm1(-2.0 / scale)


def mean_absolute_part(noise: Noise) -> float:
    """Ratio of the mean absolute value to the standard deviation, in the limit of a large scale."""
    return math.sqrt(0.5) if noise is Noise.LAPLACE else math.sqrt(2.0 / math.pi)
