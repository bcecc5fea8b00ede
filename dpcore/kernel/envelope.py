"""The three laws of additive noise, each below an envelope of equal rectangles from which it is drawn. TRUSTED.

A law of noise is symmetric, and its size z has a density (or mass) proportional to g(z) = exp(-energy(z)):
    * discrete Laplace: z = 0, 1, 2, ...; energy z / b;
    * discrete Gaussian: z = 0, 1, 2, ...; energy z^2 / (2 sigma^2);
    * rounded Gaussian: z is real; energy z^2 / (2 sigma^2); rounded to the nearest step once it is drawn.
z is counted in steps: counts for the first two, 2^-GRID_BITS counts for the rounded Gaussian.

The envelope. Bin j holds [j w, (j + 1) w), where w = 2^k steps; for a law on the integers k >= 0. Over bin j stand n_j
rectangles of width w and height 1/c, where c is an integer and n_j >= c g(j w): g falls, so they cover it. The bins
before J together have fewer than RECTANGLES rectangles. From J w on, where g <= exp(-25), bins of width 8 w have
heights 2^-(i + 24) / c for i = 0, 1, ...: c < 2^12, so the first is above 2^-36 > exp(-25), and over 8 w >= scale the
energy grows by 1 or more, which is more than ln 2: they cover g too. Their areas add up to 2^-20 of one rectangle.

The draw. A uniform point below the envelope that also lies below the graph of g has an abscissa z with exactly the law
wanted (rejection; von Neumann 1951). A uniform point below the envelope is: a uniform choice among RECTANGLES, where
choices that stand for no rectangle, and all but 2^-20 of the one that stands for the tail, are rejected; a uniform
abscissa in it (an integer or a real); a uniform height in it. A fair sign follows; minus 0 is rejected for the
laws on the integers, or 0 would come twice as often.

Source: this file. It draws the laws of Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential
Privacy", from a closer envelope than their Algorithms 2 and 3, and takes any double as a scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ScaleError
from dpcore.kernel.exact_exp import exp_bounds
from dpcore.measurement import GRID_BITS, Noise

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-20, 2.0**40
RECTANGLES = 4096
UNUSED, TAIL = -1, -2  # Choices that stand for no bin.
TAIL_ENERGY = 25
_BITS = 64  # Of the bounds that decide how many rectangles stand over a bin.


@dataclass(frozen=True)
class Law:
    """A law of noise. scale: In counts, a double, which is taken as the rational that it is.

    Raises ScaleError for a scale outside SMALLEST_SCALE .. LARGEST_SCALE.
    """

    noise: Noise
    scale: float

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise ScaleError(f"noise scale {self.scale:.6g} counts; want 2^-20 <= scale <= 2^40")

    @property
    def is_real(self) -> bool:
        """Whether a real number is drawn and then rounded."""
        return self.noise is Noise.ROUNDED_GAUSSIAN

    @property
    def is_gaussian(self) -> bool:
        return self.noise is not Noise.LAPLACE

    @property
    def steps(self) -> Fraction:
        """The scale in steps."""
        return Fraction(self.scale) * (1 << GRID_BITS if self.is_real else 1)

    def energy(self, z: Fraction) -> Fraction:
        """-log g(z), z in steps."""
        return z * z / (2 * self.steps**2) if self.is_gaussian else z / self.steps


@dataclass(frozen=True, eq=False)
class Envelope:
    """See the module.

    width_bits: k. A bin is 2^k steps wide, with scale / 8 < 2^k <= scale / 4, or k = 0 where that would be a fraction
        of an integer.
    height: c, the rectangles in a height of 1.
    tail: J, the number of bins before the tail.
    bins: int16 [RECTANGLES], bin of each rectangle; UNUSED or TAIL for choices that are none.
    ranks: int16 [RECTANGLES], how many rectangles of the same bin lie below it.
    inside: bool [RECTANGLES], whether the whole rectangle is proved to lie below the graph of g.
    """

    law: Law
    width_bits: int
    height: int
    tail: int
    bins: NDArray[np.int16]
    ranks: NDArray[np.int16]
    inside: NDArray[np.bool_]


@lru_cache(maxsize=64)
def envelope(law: Law) -> Envelope:
    """The envelope of a law, from rational bounds of g at the edges of its bins."""
    width_bits = _width_bits(law)
    width = Fraction(2) ** width_bits
    tail = next(j for j in range(RECTANGLES) if law.energy(j * width) >= TAIL_ENERGY)
    left = [exp_bounds(law.energy(j * width), _BITS)[1] for j in range(tail)]
    last = width if law.is_real else width - 1  # From the left edge to the last abscissa of a bin.
    right = [exp_bounds(law.energy(j * width + last), _BITS)[0] for j in range(tail)]
    height = _largest_height(left)
    counts = [_rectangles(height, bound) for bound in left]
    below = [height * bound >> _BITS for bound in right]
    bins = np.full(RECTANGLES, UNUSED, dtype=np.int16)
    ranks = np.zeros(RECTANGLES, dtype=np.int16)
    used = sum(counts)
    bins[:used] = np.repeat(np.arange(tail), counts)
    bins[-1] = TAIL
    ranks[:used] = np.concatenate([np.arange(count) for count in counts])
    inside = np.zeros(RECTANGLES, dtype=np.bool_)
    inside[:used] = ranks[:used] < np.repeat(below, counts)
    for table in (bins, ranks, inside):  # They serve every release of the process.
        table.setflags(write=False)
    return Envelope(law, width_bits, height, tail, bins, ranks, inside)


def _width_bits(law: Law) -> int:
    """The k with scale / 8 < 2^k <= scale / 4, or 0 for integers when that k is negative."""
    quarter = law.steps / 4
    guess = quarter.numerator.bit_length() - quarter.denominator.bit_length()
    width_bits = guess if Fraction(2) ** guess <= quarter else guess - 1
    return width_bits if law.is_real else max(0, width_bits)


def _rectangles(height: int, bound: int) -> int:
    """How many rectangles cover a bin whose largest g is at most bound / 2^_BITS; at least one."""
    return -(-height * bound >> _BITS)


def _largest_height(left: list[int]) -> int:
    """The largest c with which all bins fit beside the tail; with c = 1 they do, one rectangle each."""
    low, high = 1, RECTANGLES
    while high - low > 1:
        middle = (low + high) // 2
        fits = sum(_rectangles(middle, bound) for bound in left) < RECTANGLES
        low, high = (middle, high) if fits else (low, middle)
    return low
