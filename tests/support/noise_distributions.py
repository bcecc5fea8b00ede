"""The laws of noise as formulas, written without the kernel: cumulative chances, moments, energies. Units are steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcore.measurement import GRID_BITS, Noise

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution(ABC):
    """A law on the integers, symmetric around 0. steps: Its scale in steps."""

    steps: float
    energy_per_scale = 1.0  # d log p / d log scale is this multiple of the energy, less its mean.

    @abstractmethod
    def cdf(self, z: Reals) -> Reals:
        """P(Z <= z) for integers z."""

    @abstractmethod
    def energy(self, z: Reals) -> Reals:
        """-log of the mass, or of the density that is rounded, up to a constant."""

    @abstractmethod
    def size_of(self, energy: Reals) -> Reals:
        """The z >= 0 of an energy."""

    @abstractmethod
    def about(self, chance: Reals) -> Reals:
        """A real near the quantile of a chance; used to place bins, whose chances come from the cdf."""

    @property
    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """E Z^2 and E Z^4."""


@dataclass(frozen=True)
class DiscreteLaplace(Distribution):
    """P(z) ~ r^|z| with r = exp(-1/b)."""

    @property
    def _r(self) -> float:
        return math.exp(-1.0 / self.steps)

    def cdf(self, z: Reals) -> Reals:
        beyond = np.exp(-(np.where(z < 0, -z, z + 1)) / self.steps) / (1 + self._r)
        return np.where(z < 0, beyond, 1 - beyond)

    def energy(self, z: Reals) -> Reals:
        return np.asarray(np.abs(z) / self.steps)

    def size_of(self, energy: Reals) -> Reals:
        return energy * self.steps

    def about(self, chance: Reals) -> Reals:
        return np.where(chance < 0.5, 1, -1) * self.steps * np.log(2 * np.minimum(chance, 1 - chance))

    @property
    def moments(self) -> tuple[float, float]:
        r, rest = self._r, -math.expm1(-1.0 / self.steps)
        return 2 * r / rest**2, 2 * r * (1 + 10 * r + r**2) / rest**4


@dataclass(frozen=True)
class _AnyGaussian(Distribution, ABC):
    energy_per_scale = 2.0

    def energy(self, z: Reals) -> Reals:
        return np.asarray((z / self.steps) ** 2 / 2)

    def size_of(self, energy: Reals) -> Reals:
        return np.asarray(self.steps * np.sqrt(2 * energy))

    def about(self, chance: Reals) -> Reals:
        return np.asarray(self.steps * ndtri(chance))


@dataclass(frozen=True)
class DiscreteGaussian(_AnyGaussian):
    """P(z) ~ exp(-z^2 / (2 sigma^2)), summed up to 12 sigma."""

    @cached_property
    def _table(self) -> tuple[Reals, Reals]:
        reach = math.ceil(12 * self.steps) + 2
        z = np.arange(-reach, reach + 1, dtype=np.float64)
        mass = np.exp(-self.energy(z))
        return z, mass / mass.sum()

    @cached_property
    def _sums(self) -> Reals:
        return np.concatenate([[0.0], np.cumsum(self._table[1])])

    def cdf(self, z: Reals) -> Reals:
        support = self._table[0]
        return self._sums[np.clip(z - support[0] + 1, 0, support.size).astype(np.int64)]

    @cached_property
    def _moments(self) -> tuple[float, float]:
        support, mass = self._table
        return float(mass @ support**2), float(mass @ support**4)

    @property
    def moments(self) -> tuple[float, float]:
        return self._moments


@dataclass(frozen=True)
class RoundedGaussian(_AnyGaussian):
    """round(N(0, sigma^2)); moments up to a relative exp(-2 (pi sigma)^2), so for sigma of 2 steps or more."""

    def cdf(self, z: Reals) -> Reals:
        return np.asarray(ndtr((z + 0.5) / self.steps))

    @property
    def moments(self) -> tuple[float, float]:
        variance = self.steps**2
        return variance + 1 / 12, 3 * variance**2 + variance / 2 + 1 / 80


def distribution(noise: Noise, scale: float) -> Distribution:
    """The law of the kernel's noise of this scale in counts."""
    if noise is Noise.LAPLACE:
        return DiscreteLaplace(scale)
    return DiscreteGaussian(scale) if noise is Noise.GAUSSIAN else RoundedGaussian(scale * 2**GRID_BITS)
