"""Fast exact draws of noise: comparisons of doubles that are certain, and exact arithmetic for the rest. TRUSTED.

A proposal is two random words (``exact_rejection``). Most rectangles lie below the graph of the law and are accepted
as they are; in the others the height y is compared with c g(z) = c exp(-energy(z)). The comparison counts only when
the doubles computed for y and c g(z) are more than MARGIN apart; otherwise ``exact_rejection`` decides the same words.
MARGIN is more than the doubles can be wrong, so every proposal is decided as by exact arithmetic: the error of the law
is 0. Proposals are decided in their order and the accepted ones are kept in it; each has two words of its own, read by
no other, so what is drawn next does not depend on what was rejected.

Proof of MARGIN = 2^-24. Only +, -, * and conversions of IEEE doubles are used, each with a relative error of at most
u = 2^-53, or none where two of them are fused.
    * energy: z as a double (u), the constant (u), at most two products: relative error below 6 u < 2^-50. Before the
      tail it is below 32, so the absolute error is below 2^-45. A real z is known to 2^-51 of a bin, a bin is at most
      scale / 4, and z <= 8 scale: that moves z^2 / (2 sigma^2) by at most 8 / 4 * 2^-51 = 2^-50. Together below 2^-44.
    * exp(-energy) = exp(-i / 64) exp(-r), with r = energy - i / 64 in [0, 1/64) exact (or fused and off by less than
      2^-46). The table is off by less than 2^-52 relative, the polynomial of degree 5 by less than r^6 / 720 < 2^-45
      and, for its ten roundings of numbers of size at most 1, by less than 2^-49. With the energy: relative 2^-43.
    * c g(z) <= RECTANGLES = 2^12 before the tail: the absolute error is below 2^-31, and the last product adds 2^-42.
    * y = rank + the first 53 of its 64 known bits <= 2^12: cut bits 2^-53, and one rounding 2^-42.
The sum is below 2^-30. With this margin about one proposal in 10^8 is left open, so nothing is gained by a smaller one.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel import entropy, exact_rejection
from dpcore.kernel.certified_exp import EXP_TABLE, exp_of_negative
from dpcore.kernel.envelope import TAIL, Envelope
from dpcore.kernel.exact_rejection import LOW_BITS, TAIL_BITS, kept_bits

MARGIN = 2.0**-24
PROPOSALS_AT_ONCE = 1 << 14  # Their words stay in the cache.

_CHOICE_SHIFT = np.uint64(LOW_BITS + 1)
_SIGN_SHIFT = np.uint64(LOW_BITS)
_LOW_BITS = np.uint64(LOW_BITS)
_LOW_MASK = np.uint64((1 << LOW_BITS) - 1)
_TAIL_SHIFT = np.uint64(LOW_BITS - TAIL_BITS)
_HEIGHT_SHIFT = np.uint64(11)
_TAIL = np.int16(TAIL)


class Constants(NamedTuple):
    """What the compiled loop knows of a law, beside the choices of its envelope.

    kept: Low bits of a first word that place z in its bin; then z is an integer of 2^-shift steps.
    half: Half a step, added before the bits below a step are cut off; 0 on the integers.
    factor: The energy is factor * z^2 (squared) or factor * z.
    height: c.
    exp: exp(-i / 64) for i < 2048.
    """

    bins: NDArray[np.int16]
    ranks: NDArray[np.int16]
    inside: NDArray[np.bool_]
    kept: np.uint64
    shift: np.uint64
    half: np.uint64
    factor: float
    squared: bool
    is_real: bool
    height: float
    exp: NDArray[np.float64]


@lru_cache(maxsize=64)
def _constants(made: Envelope) -> Constants:
    law, kept = made.law, kept_bits(made)
    shift = kept - made.width_bits
    unit = Fraction(1, 1 << shift)
    return Constants(
        bins=made.bins,
        ranks=made.ranks,
        inside=made.inside,
        kept=np.uint64(kept),
        shift=np.uint64(shift),
        half=np.uint64(1 << (shift - 1) if shift else 0),
        factor=float(law.energy(unit)),
        squared=law.is_gaussian,
        is_real=law.is_real,
        height=float(made.height),
        exp=EXP_TABLE,
    )


@compiled
def _height(z: np.uint64, law: Constants) -> float:
    """c exp(-energy(z)) for an energy below 32; see the proof."""
    index = np.float64(z)
    energy = index * index * law.factor if law.squared else index * law.factor
    return law.height * exp_of_negative(energy, law.exp)


@compiled
def _decide(
    words: NDArray[np.uint64],
    proposal: int,
    out: NDArray[np.int64],
    filled: int,
    law: Constants,
    margin: float,
) -> tuple[int, int]:
    """Decides proposals and puts the accepted ones into ``out``; stops at the first that is not certain.

    Returns the next proposal and the number of values filled.
    """
    while filled < out.size and proposal < words.size // 2:
        word = words[2 * proposal]
        choice = word >> _CHOICE_SHIFT
        low = word & _LOW_MASK
        chosen = law.bins[choice]
        if chosen < 0:
            if chosen == _TAIL and low >> _TAIL_SHIFT == 0:
                break
            proposal += 1
            continue
        z = (np.uint64(chosen) << law.kept) + (low >> (_LOW_BITS - law.kept))
        if not law.inside[choice]:
            excess = law.ranks[choice] + np.float64(words[2 * proposal + 1] >> _HEIGHT_SHIFT) * 2.0**-53
            excess -= _height(z, law)
            if abs(excess) <= margin:
                break
            if excess > 0.0:
                proposal += 1
                continue
        proposal += 1
        size = np.int64((z + law.half) >> law.shift)
        if not word >> _SIGN_SHIFT & np.uint64(1):
            out[filled] = size
            filled += 1
        elif size > 0 or law.is_real:
            out[filled] = -size
            filled += 1
    return proposal, filled


def fill(made: Envelope, out: NDArray[np.int64]) -> None:
    """Fills ``out`` with independent draws of the law, in steps."""
    filled = 0
    while filled < out.size:
        proposals = min(PROPOSALS_AT_ONCE, 2 * (out.size - filled) + 16)
        filled = take(made, entropy.words(2 * proposals), out, filled)


def take(made: Envelope, words: NDArray[np.uint64], out: NDArray[np.int64], filled: int) -> int:
    """Puts the accepted ones of the proposals in ``words`` into ``out`` from ``filled`` on; returns where it ends."""
    law, proposal, end = _constants(made), 0, words.size // 2
    while True:
        proposal, filled = _decide(words, proposal, out, filled, law, MARGIN)
        if proposal == end or filled == out.size:
            return filled
        value = exact_rejection.decide(made, int(words[2 * proposal]), int(words[2 * proposal + 1]))
        proposal += 1
        if value is not None:
            out[filled] = value
            filled += 1
