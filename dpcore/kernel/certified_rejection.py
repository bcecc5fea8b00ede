"""Fast exact draws of additive noise by rejection sampling with certified comparisons. TRUSTED.

``envelope`` defines the laws, the rectangles and the notation (g, z, c). A proposal consists of two random words
(``exact_rejection``). Most rectangles lie below the graph of g, and a proposal in them is accepted at once. In the
other rectangles the height y of the proposal is compared with c g(z) = c exp(-energy(z)). The comparison of the doubles
for y and c g(z) decides only when they are more than MARGIN apart; otherwise ``exact_rejection`` decides the same two
words in exact arithmetic. MARGIN exceeds the error of the doubles, so every proposal is decided as in exact arithmetic,
and the law of the noise has no error.

Proposals are decided in their order, and accepted values keep that order. Each proposal reads two words of its own, so
a later value does not depend on earlier rejections.

Proof of MARGIN = 2^-24. Only +, -, * and conversions of IEEE doubles are used. Each has a relative error of at most
u = 2^-53, or none when the compiler fuses two of them.
    * Energy. The conversion of z (u), the constant (u) and at most two products give a relative error below 6 u <
      2^-50. Before the tail the energy is below 32, so the absolute error is below 2^-45. A real z is known to 2^-51 of
      a bin; a bin is at most scale / 4 wide, and z <= 8 scale, so this moves z^2 / (2 sigma^2) by at most 8 / 4 * 2^-51
      = 2^-50. Together the absolute error is below 2^-44.
    * exp(-energy). ``certified_exp`` adds a relative error below 2^-44. With the error of the energy, the relative
      error is below 2^-43.
    * c g(z). Before the tail it is at most RECTANGLES = 2^12, so its absolute error is below 2^-31. The last product
      adds 2^-42.
    * y = rank + the first 53 of the 64 known bits, at most 2^12. The bits that are dropped add 2^-53, and one rounding
      adds 2^-42.
The sum is below 2^-30, so the margin is at least 64 times the error. About one proposal in 10^8 falls within the
margin, so a smaller margin would save no time.
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
PROPOSALS_AT_ONCE = 1 << 14  # The words of so many proposals fit the processor cache.

_CHOICE_SHIFT = np.uint64(LOW_BITS + 1)
_SIGN_SHIFT = np.uint64(LOW_BITS)
_LOW_BITS = np.uint64(LOW_BITS)
_LOW_MASK = np.uint64((1 << LOW_BITS) - 1)
_TAIL_SHIFT = np.uint64(LOW_BITS - TAIL_BITS)
_HEIGHT_SHIFT = np.uint64(11)
_TAIL = np.int16(TAIL)


class Constants(NamedTuple):
    """The law and its envelope, in the form that compiled code reads.

    bins, ranks, inside: As in ``Envelope``.
    kept: Number of low bits of the first word that give the position of z in its bin.
    shift: z is an integer number of units, and a unit is 2^-shift noise steps.
    half: Half a noise step, in units of z, which is added before truncation to whole steps; 0 for laws on the integers.
    factor: The energy is factor * z^2 when ``squared`` holds, and factor * z otherwise.
    squared: Whether the law is Gaussian.
    is_real: Whether z is a real number that is rounded once it is drawn.
    height: The constant c of the envelope.
    exp: EXP_TABLE, exp(-i / 64) for i < 2048.
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
def _constants(envelope: Envelope) -> Constants:
    """The constants of one envelope."""
    law, kept = envelope.law, kept_bits(envelope)
    shift = kept - envelope.width_bits
    unit = Fraction(1, 1 << shift)
    return Constants(
        bins=envelope.bins,
        ranks=envelope.ranks,
        inside=envelope.inside,
        kept=np.uint64(kept),
        shift=np.uint64(shift),
        half=np.uint64(1 << (shift - 1) if shift else 0),
        factor=float(law.energy(unit)),
        squared=law.is_gaussian,
        is_real=law.is_real,
        height=float(envelope.height),
        exp=EXP_TABLE,
    )


@compiled
def _height(z: np.uint64, law: Constants) -> float:
    """c exp(-energy(z)) for an energy below 32, with the error of the module docstring."""
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
    """Decides proposals from number ``proposal`` on, and writes the accepted values to ``out`` from ``filled`` on.

    Stops at the first proposal that doubles cannot decide, at the end of the words, or when ``out`` is full. Returns
    the number of the next proposal and the number of values in ``out``.
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


def fill(envelope: Envelope, out: NDArray[np.int64]) -> None:
    """Fills ``out`` with independent draws of the noise, in noise steps."""
    filled = 0
    while filled < out.size:
        proposals = min(PROPOSALS_AT_ONCE, 2 * (out.size - filled) + 16)
        filled = take(envelope, entropy.words(2 * proposals), out, filled)


def take(envelope: Envelope, words: NDArray[np.uint64], out: NDArray[np.int64], filled: int) -> int:
    """Writes the accepted values of the proposals in ``words`` to ``out`` from ``filled`` on.

    Returns the number of values in ``out``.
    """
    law, proposal, end = _constants(envelope), 0, words.size // 2
    while True:
        proposal, filled = _decide(words, proposal, out, filled, law, MARGIN)
        if proposal == end or filled == out.size:
            return filled
        value = exact_rejection.decide(envelope, int(words[2 * proposal]), int(words[2 * proposal + 1]))
        proposal += 1
        if value is not None:
            out[filled] = value
            filled += 1
