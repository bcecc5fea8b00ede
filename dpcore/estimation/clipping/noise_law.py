"""The law of the noise in measured values: its tails, and how far values may lie from the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.measurement import GRID_BITS, Measurement, Noise

_GAUSSIAN_REACH = 6.5  # In scales. Weights beyond are below 1e-9 of the largest one.
_LAPLACE_REACH = 20.0


@dataclass(frozen=True)
class NoiseLaw:
    """Independent noise of known law in each of some measured values.

    laplace: Whether the noise is a discrete Laplace; otherwise it is a discrete or rounded Gaussian.
    scale: Scale of the noise in counts: b of the Laplace, or sigma of a Gaussian.
    step: The noise is a multiple of this number of counts.
    """

    laplace: bool
    scale: float
    step: float

    @classmethod
    def of(cls, measured: Measurement) -> NoiseLaw:
        """The law of the noise of a measurement."""
        step = 1.0 / measured.denominator
        if measured.noise is Noise.ROUNDED_GAUSSIAN:
            step *= 2.0**-GRID_BITS
        return cls(measured.noise is Noise.LAPLACE, measured.scale, step)

    @property
    def stddev(self) -> float:
        """Standard deviation in counts, up to the step."""
        return self.scale * (math.sqrt(2.0) if self.laplace else 1.0)

    @property
    def reach(self) -> float:
        """Distance in counts beyond which the density is negligible."""
        return self.scale * (_LAPLACE_REACH if self.laplace else _GAUSSIAN_REACH)

    def upper_tail(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(noise >= value) for each value, in counts; float64 of the same shape.

        It is exact for the discrete Laplace and the rounded Gaussian. The discrete Gaussian is compared with a Gaussian
        at half a step less.
        """
        if not self.laplace:
            return np.asarray(ndtr(-(values - self.step / 2) / self.scale))
        ratio = math.exp(-self.step / self.scale)
        steps = np.rint(values / self.step)
        tails = np.exp(-np.maximum(steps, 1 - steps) * self.step / self.scale) / (1 + ratio)
        return np.asarray(np.where(steps >= 1, tails, 1 - tails))
