"""One proposal of noise decided in exact arithmetic: slow and obvious. TRUSTED.

It decides what ``certified_rejection`` leaves open, and is the reference that the fast path must agree with word for
word. A uniform real is revealed bit by bit and compared with rational bounds until the answer is certain; nothing is
rounded, so the law of the noise is exactly that of ``envelope``.

A proposal is two words. The first: 12 bits choose a rectangle, 1 bit the sign, 51 bits the abscissa in the rectangle.
The second: the first 64 bits of the height in the rectangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpcore.kernel import entropy
from dpcore.kernel.envelope import TAIL, UNUSED, Envelope, Law
from dpcore.kernel.exact_exp import exp_bounds

LOW_BITS = 51  # Of a first word: they place the abscissa.
TAIL_BITS = 20  # The tail is meant when so many of the low bits are 0.
LARGEST = (1 << 63) - 1


@dataclass
class Revealed:
    """A uniform real of [first, first + 1) / 2^bits, of which more bits are drawn when they are needed."""

    first: int
    bits: int

    @property
    def low(self) -> Fraction:
        return Fraction(self.first) / Fraction(2) ** self.bits

    @property
    def high(self) -> Fraction:
        return Fraction(self.first + 1) / Fraction(2) ** self.bits

    def reveal(self) -> None:
        self.first, self.bits = self.first << 64 | entropy.below(1 << 64), self.bits + 64


def kept_bits(made: Envelope) -> int:
    """How many low bits of the first word place the abscissa: all for a real one, k in a bin of 2^k integers."""
    return LOW_BITS if made.law.is_real else made.width_bits


def decide(made: Envelope, word: int, second: int) -> int | None:
    """The noise of a proposal in steps, at most 2^63 - 1 in size, or None when the proposal is rejected."""
    low = word & ((1 << LOW_BITS) - 1)
    choice = word >> (LOW_BITS + 1)
    chosen = int(made.bins[choice])
    if chosen == UNUSED or (chosen == TAIL and low >> (LOW_BITS - TAIL_BITS)):
        return None
    if chosen == TAIL:
        z = decide_tail(made)
    else:
        kept = kept_bits(made)
        index = Revealed((chosen << kept) + (low >> (LOW_BITS - kept)), kept - made.width_bits)
        height = Revealed((int(made.ranks[choice]) << 64) + second, 64)
        z = index if is_below(made.law, index, height, made.height) else None
    return None if z is None else _signed(made.law, z, bool(word >> LOW_BITS & 1))


def decide_tail(made: Envelope) -> Revealed | None:
    """An abscissa in the tail, or None when the proposal is rejected.

    Bin i of the tail is 8 w wide and 2^-(i + 24) / c high, so it has half the area of the one before.
    """
    bin_of_tail = 0
    while entropy.below(2):
        bin_of_tail += 1
    kept = kept_bits(made)
    start = (made.tail + 8 * bin_of_tail) << kept
    index = Revealed(start + entropy.below(8 << kept), kept - made.width_bits)
    height = Revealed(entropy.below(1 << 64), 64)
    return index if is_below(made.law, index, height, made.height << (bin_of_tail + 24)) else None


def is_below(law: Law, index: Revealed, height: Revealed, factor: int) -> bool:
    """Whether the real ``height`` is below factor * g(z), for the abscissa z = ``index``."""
    precision = 64
    while True:
        last = index.high if law.is_real else index.low  # An integer is known; g falls.
        above = Fraction(factor * exp_bounds(law.energy(index.low), precision)[1], 1 << precision)
        below = Fraction(factor * exp_bounds(law.energy(last), precision)[0], 1 << precision)
        if height.high <= below:
            return True
        if height.low >= above:
            return False
        precision += 64
        height.reveal()
        if law.is_real:
            index.reveal()


def _signed(law: Law, z: Revealed, negative: bool) -> int | None:
    """z rounded to the nearest step, with its sign; minus 0 is rejected on the integers.

    The half step is a bit boundary of a real z, so bits that are not yet revealed cannot change the rounding.
    """
    size = (2 * z.first + (1 << z.bits)) >> (z.bits + 1) if law.is_real else z.first
    if negative and size == 0 and not law.is_real:
        return None
    return min(size, LARGEST) * (-1 if negative else 1)
