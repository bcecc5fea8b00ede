"""The exact privacy curve of the rounded Gaussian, coordinate by coordinate, against the analytic Gaussian's claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import gdp_of
from dpcore.kernel.scales import noise_scale
from dpcore.measurement import GRID_BITS
from tests.audit.section import Row, Size

TITLE = "Rounded Gaussian by exact convolution"
CLAIM = (
    "With the sigma that Gaussian DP gives for (epsilon, delta), noise rounded to a grid needs at most that delta, "
    "for shifts of one, two and three coordinates: sums of exact masses, relative error below 1e-10. Two negative "
    "controls: the discrete Gaussian on the integers with that sigma needs more. A sigma 0.1 % smaller is rejected."
)
TARGETS = ((1.0, 1e-6), (8.0, 1e-6), (0.1, 1e-9))
SHIFTS = ((1,), (3,), (2, 1), (1, 1), (1, 1, 1), (3, -1, 2))
ERROR = 1e-10  # Relative, of a delta found here; tests hold it against 40 digits.
_REACH = 12.0  # Standard deviations of a coordinate that are summed; 1e-32 lies beyond.
_WHERE = np.arange(-2, 3)


@dataclass(frozen=True)
class RoundedGaussian:
    """N(0, sigma^2) rounded to multiples of ``step``. A shift moves it by whole steps.

    The masses are those of a log-concave density over intervals of one length, so they are log-concave (Prekopa) and
    the privacy loss of a shift rises with the value: the worst sets of one coordinate are half-lines.
    """

    sigma: float
    step: float

    def masses(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z = value), by the nearer tail."""
        distance = np.abs(values)
        return np.asarray(self.tail(distance) - self.tail(distance + self.step))

    def tail(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z >= value)."""
        return np.asarray(ndtr(-(values - self.step / 2) / self.sigma))

    def losses(self, shift: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """log(P / Q) and P at every value, where P is Z + shift and Q is Z."""
        reach = math.ceil(_REACH * self.sigma / self.step) * self.step
        values = np.arange(-reach, reach + self.step / 2, self.step)
        chances = self.masses(values)
        return np.log(chances / self.masses(values + shift)), chances

    def delta(self, shift: int, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """max over half-lines of P - exp(epsilon) Q, for every epsilon: near the continuous threshold."""
        threshold = epsilon * self.sigma**2 / shift + shift / 2
        steps = np.rint(threshold / self.step)
        found = np.zeros_like(epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            for near in _WHERE:
                value = (steps + near) * self.step
                gain = self.tail(value - shift) - np.exp(epsilon) * self.tail(value)
                found = np.fmax(found, gain)
        return found


@dataclass(frozen=True)
class DiscreteGaussian:
    """Masses proportional to exp(-k^2 / (2 sigma^2)) on the integers: the negative control, one coordinate."""

    sigma: float

    def delta(self, shift: int, epsilon: float) -> float:
        reach = math.ceil(40 * self.sigma)
        k = np.arange(-reach, reach + 1)
        masses = np.exp(-(k**2) / (2 * self.sigma**2))
        losses = (2 * k + shift) * shift / (2 * self.sigma**2)  # log(P / Q) at the value k + shift.
        gains = masses / masses.sum() * -np.expm1(np.minimum(epsilon - losses, 0))
        return float(gains.sum())


def delta_of(law: RoundedGaussian, shift: Sequence[int], epsilon: float) -> float:
    """The least delta for outputs that differ by ``shift``: E over the other coordinates of one coordinate's delta."""
    first, *others = sorted((abs(part) for part in shift), reverse=True)  # The law is symmetric.
    total, chances = np.zeros(1), np.ones(1)
    for other in others[:-1]:
        losses, masses = law.losses(other)
        total, chances = np.add.outer(total, losses).ravel(), np.multiply.outer(chances, masses).ravel()
    if not others:
        return float(law.delta(first, np.array([epsilon]))[0])
    losses, masses = law.losses(others[-1])
    found = 0.0
    for lost, chance in zip(total.tolist(), chances.tolist(), strict=True):
        found += chance * float(masses @ law.delta(first, epsilon - lost - losses))
    return found


def grid_bits(shift: Sequence[int], epsilon: float, size: Size) -> tuple[int, ...]:
    """Grids that a shift is tried on: the shipped one, coarser where its pairs or triples are too many."""
    full = size is Size.FULL
    finest = (GRID_BITS, GRID_BITS if full else 4, 3 if full and epsilon >= 1 else 0)[len(shift) - 1]
    return tuple(sorted({0, finest}))


def run(size: Size, narrower: float = 1.0) -> list[Row]:
    """narrower: Factor on every sigma, for planted errors."""
    rows = [
        _row(shift, bits, epsilon, delta, narrower)
        for epsilon, delta in TARGETS
        for shift in SHIFTS
        if size is Size.FULL or len(shift) < 3 or epsilon >= 1
        for bits in grid_bits(shift, epsilon, size)
    ]
    return rows + [_control(epsilon, 1e-6, wanted) for epsilon, wanted in ((1.0, 1.02), (8.0, 3.0))]


def _row(shift: Sequence[int], bits: int, epsilon: float, delta: float, narrower: float) -> Row:
    sigma = sigma_of(shift, epsilon, delta) * narrower
    found = delta_of(RoundedGaussian(sigma, 2.0**-bits), shift, epsilon)
    cells = _cells("rounded Gaussian", f"2^-{bits}" if bits else "1", shift, epsilon, sigma, delta, found)
    return Row(cells, found <= delta * (1 + ERROR))


def _control(epsilon: float, delta: float, wanted: float) -> Row:
    """The discrete Gaussian must exceed the claim, by the known factor."""
    sigma = sigma_of((1,), epsilon, delta)
    found = DiscreteGaussian(sigma).delta(1, epsilon)
    cells = _cells("discrete Gaussian (control)", "1", (1,), epsilon, sigma, delta, found)
    return Row(cells, abs(found / delta - wanted) < 0.05 and found > delta)


def sigma_of(shift: Sequence[int], epsilon: float, delta: float) -> float:
    """What the kernel draws for a query whose answers move by ``shift``."""
    squared_l2 = sum(part**2 for part in shift)
    return noise_scale(Currency.GDP, Fraction(gdp_of(epsilon, delta)), 1, squared_l2)


def _cells(
    law: str, grid: str, shift: Sequence[int], epsilon: float, sigma: float, delta: float, found: float
) -> dict[str, str | int | float | bool]:
    cells = {"noise": law, "grid": grid, "shift": str(tuple(shift)), "epsilon": epsilon, "sigma": sigma}
    return cells | {"delta claimed": delta, "delta found": found, "found / claimed": round(found / delta, 10)}
