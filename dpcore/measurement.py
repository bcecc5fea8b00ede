"""Noisy values, public once they exist."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import Queries, UnitCount


class Noise(StrEnum):
    """Laws of exact noise on the integers."""

    LAPLACE = "discrete_laplace"
    GAUSSIAN = "discrete_gaussian"


@dataclass(frozen=True, eq=False)
class Measurement:
    """Answers with noise drawn by the kernel.

    queries: What was measured.
    values: int64 [queries.size], exact answers plus noise, in counts; may be negative.
    noise: Law of the noise.
    scale: Its scale in counts: b of the discrete Laplace (mass ~ exp(-|z|/b)), sigma of the discrete Gaussian.
    """

    queries: Queries | UnitCount
    values: NDArray[np.int64]
    noise: Noise
    scale: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise in each value, in counts."""
        return noise_stddev(self.noise, self.scale)


def noise_stddev(noise: Noise, scale: float) -> float:
    """Standard deviation of the law (for the discrete Gaussian the upper bound sigma)."""
    if noise is Noise.GAUSSIAN:
        return scale
    ratio = math.exp(-1.0 / scale)
    return math.sqrt(2.0 * ratio) / -math.expm1(-1.0 / scale)


def mean_absolute_noise(noise: Noise, scale: float) -> float:
    """Expected absolute value of the law: sigma (2 / pi)^(1/2) (Gaussian), 2 r / (1 - r^2) with r = exp(-1/b)."""
    if noise is Noise.GAUSSIAN:
        return scale * math.sqrt(2.0 / math.pi)
    return 2.0 * math.exp(-1.0 / scale) / -math.expm1(-2.0 / scale)
