"""The three laws of additive noise, and the envelope of equal rectangles from which each is drawn. TRUSTED.

Every law is symmetric. The absolute value z has a density or probability mass proportional to g(z) = exp(-energy(z)):
    * discrete Laplace: z = 0, 1, 2, ...; energy z / b;
    * discrete Gaussian: z = 0, 1, 2, ...; energy z^2 / (2 sigma^2);
    * rounded Gaussian: z is real, with energy z^2 / (2 sigma^2), and is rounded to the nearest step after it is drawn.
z is measured in noise steps: counts for the first two laws, 2^-GRID_BITS counts for the rounded Gaussian.

The envelope. Bin j is the interval [j w, (j + 1) w) with w = 2^k steps, where k >= 0 for a law on the integers. Bin j
carries n_j stacked rectangles of width w and height 1/c, where c is an integer and n_j >= c g(j w). They cover the
graph of g over the bin, because g decreases. The J bins before the tail have fewer than RECTANGLES rectangles in total.
The tail starts at J w, where g <= exp(-25). It consists of bins i = 0, 1, ... of width 8 w and height 2^-(i + 24) / c.
They cover g as well: c < 2^12, so the height of the first is above 2^-36 > exp(-25), and over the width 8 w >= scale of
a bin the energy grows by at least 1 > ln 2. The area of the whole tail is 2^-20 of one rectangle.

The draw. The abscissa z of a uniform point below the envelope, given that the point lies below the graph of g, has
exactly the required law (rejection sampling, von Neumann 1951). A uniform point below the envelope is drawn in three
parts: a uniform choice among RECTANGLES, a uniform abscissa (integer or real) in the chosen rectangle, and a uniform
height in it. A choice that stands for no rectangle is rejected. One choice stands for the tail; it is rejected with
probability 1 - 2^-20 and otherwise draws a point below the tail. A fair sign follows. For laws on the integers, minus 0
is rejected, because 0 would otherwise be twice as likely as it should be.

Source: this file. The laws are those of Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential
Privacy". This envelope is tighter than that of their Algorithms 2 and 3, and the scale may be any double in the range.
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

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-20, 2.0**40  # In counts.
RECTANGLES = 4096
UNUSED, TAIL = -1, -2  # Choices that stand for no rectangle: rejected ones, and the tail.
TAIL_ENERGY = 25  # The tail starts at the first bin whose energy is at least this.
_BITS = 64  # Precision of the bounds on g that decide how many rectangles cover a bin.


@dataclass(frozen=True)
class Law:
    """A law of additive noise.

    noise: The family of the law.
    scale: b of the Laplace law or sigma of the Gaussian laws, in counts. The double is taken as an exact rational.

    Raises ScaleError for a scale outside SMALLEST_SCALE .. LARGEST_SCALE.
    """

    noise: Noise
    scale: float

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise ScaleError(f"noise scale {self.scale:.6g} counts; want 2^-20 <= scale <= 2^40")

    @property
    def is_real(self) -> bool:
        """Whether a real number is drawn and then rounded to a noise step."""
        return self.noise is Noise.ROUNDED_GAUSSIAN

    @property
    def is_gaussian(self) -> bool:
        """Whether the energy is quadratic."""
        return self.noise is not Noise.LAPLACE

    @property
    def steps(self) -> Fraction:
        """The scale in noise steps, exact."""
        return Fraction(self.scale) * (1 << GRID_BITS if self.is_real else 1)

    def energy(self, z: Fraction) -> Fraction:
        """-log g(z) for z in noise steps, exact."""
        return z * z / (2 * self.steps**2) if self.is_gaussian else z / self.steps


@dataclass(frozen=True, eq=False)
class Envelope:
    """The envelope of one law, in the notation of the module docstring.

    width_bits: k. A bin is 2^k steps wide, with scale / 8 < 2^k <= scale / 4. For laws on the integers k is at least 0.
    height: c, the number of rectangles in a stack of height 1.
    tail: J, the number of bins before the tail.
    bins: int16 [RECTANGLES], the bin of each rectangle, or UNUSED or TAIL.
    ranks: int16 [RECTANGLES], the number of rectangles below this one in the same bin.
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
    """Builds the envelope of a law from rational bounds on g at the edges of its bins."""
    width_bits = _width_bits(law)
    width = Fraction(2) ** width_bits
    tail = next(j for j in range(RECTANGLES) if law.energy(j * width) >= TAIL_ENERGY)
    left = [exp_bounds(law.energy(j * width), _BITS)[1] for j in range(tail)]
    last = width if law.is_real else width - 1  # Distance from the left edge of a bin to its last abscissa.
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
    for table in (bins, ranks, inside):  # The cached tables serve every release of this process.
        table.setflags(write=False)
    return Envelope(law, width_bits, height, tail, bins, ranks, inside)


def _width_bits(law: Law) -> int:
    """The k with scale / 8 < 2^k <= scale / 4; for laws on the integers at least 0."""
    quarter = law.steps / 4
    guess = quarter.numerator.bit_length() - quarter.denominator.bit_length()
    width_bits = guess if Fraction(2) ** guess <= quarter else guess - 1
    return width_bits if law.is_real else max(0, width_bits)


def _rectangles(height: int, bound: int) -> int:
    """Number of rectangles that cover a bin in which g is at most bound / 2^_BITS; at least one."""
    return -(-height * bound >> _BITS)


def _largest_height(left: list[int]) -> int:
    """The largest c for which the bins and the tail need at most RECTANGLES rectangles.

    It exists, because c = 1 needs one rectangle per bin.
    """
    low, high = 1, RECTANGLES
    while high - low > 1:
        middle = (low + high) // 2
        fits = sum(_rectangles(middle, bound) for bound in left) < RECTANGLES
        low, high = (middle, high) if fits else (low, middle)
    return low
