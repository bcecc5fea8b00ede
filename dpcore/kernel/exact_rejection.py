"""Decides one proposal of additive noise in exact arithmetic. TRUSTED.

This module decides the proposals that ``certified_rejection`` leaves open. It is also the slow reference with which the
fast path must agree on every pair of words. A uniform real is revealed bit by bit and compared with rational bounds
until the comparison is certain. Nothing is rounded, so the law of the noise is exactly that of ``envelope``.

A proposal consists of two random words. In the first word, 12 bits choose a rectangle, 1 bit is the sign, and 51 bits
are the abscissa in the rectangle. The second word holds the first 64 bits of the height in the rectangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpcore.kernel import entropy
from dpcore.kernel.envelope import TAIL, UNUSED, Envelope, Law
from dpcore.kernel.exact_exp import exp_bounds

LOW_BITS = 51  # Number of low bits of the first word, which hold the abscissa.
TAIL_BITS = 20  # A choice of the tail is kept only when the highest 20 of the low bits are 0.
LARGEST = (1 << 63) - 1  # Noise is clipped to this number of steps, the end of int64.


@dataclass
class Revealed:
    """A uniform real number known to lie in [first, first + 1) / 2^bits; further bits are drawn on demand."""

    first: int
    bits: int

    @property
    def low(self) -> Fraction:
        """The lower end of the interval."""
        return Fraction(self.first) / Fraction(2) ** self.bits

    @property
    def high(self) -> Fraction:
        """The upper end of the interval."""
        return Fraction(self.first + 1) / Fraction(2) ** self.bits

    def reveal(self) -> None:
        """Draws 64 further bits."""
        self.first, self.bits = self.first << 64 | entropy.below(1 << 64), self.bits + 64


def kept_bits(envelope: Envelope) -> int:
    """Number of low bits of the first word that give the abscissa: all if it is real, k for a bin of 2^k integers."""
    return LOW_BITS if envelope.law.is_real else envelope.width_bits


def decide(envelope: Envelope, word: int, second: int) -> int | None:
    """The noise of a proposal, or None when the proposal is rejected.

    word, second: The two words of the proposal.

    Returns: A number of noise steps, at most 2^63 - 1 in size.
    """
    low = word & ((1 << LOW_BITS) - 1)
    choice = word >> (LOW_BITS + 1)
    chosen = int(envelope.bins[choice])
    if chosen == UNUSED or (chosen == TAIL and low >> (LOW_BITS - TAIL_BITS)):
        return None
    if chosen == TAIL:
        z = decide_tail(envelope)
    else:
        kept = kept_bits(envelope)
        index = Revealed((chosen << kept) + (low >> (LOW_BITS - kept)), kept - envelope.width_bits)
        height = Revealed((int(envelope.ranks[choice]) << 64) + second, 64)
        z = index if is_below(envelope.law, index, height, envelope.height) else None
    return None if z is None else _signed(envelope.law, z, bool(word >> LOW_BITS & 1))


def decide_tail(envelope: Envelope) -> Revealed | None:
    """An abscissa in the tail, or None when the proposal is rejected.

    Bin i of the tail is 8 w wide and 2^-(i + 24) / c high, so it has half the area of bin i - 1, and coin flips choose
    the bin.
    """
    bin_of_tail = 0
    while entropy.below(2):
        bin_of_tail += 1
    kept = kept_bits(envelope)
    start = (envelope.tail + 8 * bin_of_tail) << kept
    index = Revealed(start + entropy.below(8 << kept), kept - envelope.width_bits)
    height = Revealed(entropy.below(1 << 64), 64)
    return index if is_below(envelope.law, index, height, envelope.height << (bin_of_tail + 24)) else None


def is_below(law: Law, index: Revealed, height: Revealed, factor: int) -> bool:
    """Whether ``height`` is below factor * g(z) for the abscissa z = ``index``; reveals bits until this is certain."""
    precision = 64
    while True:
        last = index.high if law.is_real else index.low  # An integer z is known exactly; g decreases.
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
    """z rounded to the nearest step, with its sign, or None for minus 0 of a law on the integers.

    Half a step is a bit boundary of a real z, so bits that are not yet revealed cannot change the rounding.
    """
    size = (2 * z.first + (1 << z.bits)) >> (z.bits + 1) if law.is_real else z.first
    if negative and size == 0 and not law.is_real:
        return None
    return min(size, LARGEST) * (-1 if negative else 1)
