"""Noisy values, public once they exist."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import ClippedSums, Marginals, Measurable, Products

GRID_BITS = 10
ERROR_STEPS = 256  # Of a count, in noisy errors.
_STEP = 2.0**-GRID_BITS


class Noise(StrEnum):
    """Laws of exact noise: two on whole counts, and N(0, sigma^2) rounded to multiples of 2^-GRID_BITS counts."""

    LAPLACE = "discrete_laplace"
    GAUSSIAN = "discrete_gaussian"
    ROUNDED_GAUSSIAN = "rounded_gaussian"


@dataclass(frozen=True, eq=False)
class Measurement:
    """Answers with noise drawn by the kernel.

    queries: What was measured.
    values: float64 [queries.size], exact answers plus noise, in counts; may be negative. Whole numbers, or multiples
        of 2^-GRID_BITS for the rounded Gaussian.
    noise: Law of the noise.
    scale: Its scale in counts: b of the discrete Laplace (mass ~ exp(-|z|/b)), sigma of either Gaussian.

    Answers of products and clipped sums are integers over their denominator: values and scale are in units of 1, noise
    was drawn in steps of 1 / ``denominator``.
    """

    queries: Measurable
    values: NDArray[np.float64]
    noise: Noise
    scale: float

    @property
    def denominator(self) -> int:
        """Steps of the integer answers in a unit of ``values``: 1 but for products and clipped sums."""
        return self.queries.denominator if isinstance(self.queries, Products | ClippedSums) else 1

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise in each value, in counts."""
        return noise_stddev(self.noise, self.scale * self.denominator) / self.denominator


@dataclass(frozen=True, eq=False)
class NoisyErrors:
    """L1 distances of exact marginals to a public estimate, with noise drawn by the kernel.

    queries: The marginals, one distance each.
    values: float64 [cliques], in counts; may be negative. Multiples of 1/256, or of 2^-18 for the rounded Gaussian.
    noise: Law of the noise, in steps of 1/256 counts.
    scale: Its scale in counts, as of a ``Measurement``.
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
    """Standard deviation of the law.

    For the discrete Gaussian the upper bound sigma. Rounding to steps h adds h^2 / 12 to the variance of a Gaussian, up
    to a relative exp(-2 (pi sigma / h)^2), which is below 1e-12 from two steps on.
    """
    if noise is Noise.GAUSSIAN:
        return scale
    if noise is Noise.ROUNDED_GAUSSIAN:
        return math.hypot(scale, _STEP / math.sqrt(12.0))
    ratio = math.exp(-1.0 / scale)
    return math.sqrt(2.0 * ratio) / -math.expm1(-1.0 / scale)


def mean_absolute_noise(noise: Noise, scale: float) -> float:
    """Expected absolute value of the law: sigma (2 / pi)^(1/2) (Gaussians), 2 r / (1 - r^2) with r = exp(-1/b)."""
    if noise is not Noise.LAPLACE:
        return scale * math.sqrt(2.0 / math.pi)
    return 2.0 * math.exp(-1.0 / scale) / -math.expm1(-2.0 / scale)


def mean_absolute_part(noise: Noise) -> float:
    """Mean absolute value of wide noise, as a part of its standard deviation."""
    return math.sqrt(0.5) if noise is Noise.LAPLACE else math.sqrt(2.0 / math.pi)
