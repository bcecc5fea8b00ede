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
        """Standard deviation of the noise in each value, in counts (for the Gaussian an upper bound)."""
        if self.noise is Noise.GAUSSIAN:
            return self.scale
        ratio = math.exp(-1.0 / self.scale)
        return math.sqrt(2.0 * ratio) / (1.0 - ratio)
