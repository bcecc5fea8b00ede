"""Exact independent bits with given chances. TRUSTED.

A chance is an integer weight m * 2^(e - 30) with m in [2^30, 2^31) and e < 0, as ``weighted_sampler`` makes them. With
k = 30 - e it is m / 2^k: a bit is 1 when a uniform k-bit integer is below m. Its first 64 bits decide nearly always;
where they equal those of m, the rest is drawn and compared as integers of any size. No float decides a bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel import entropy

_WORD = 64


def bits(exponents: NDArray[np.int32], mantissas: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Independent bits 0 or 1, int64, each 1 with exactly the chance mantissa * 2^(exponent - 30).

    Raises ValueError for a weight that is no chance below 1; its message holds no weight.
    """
    if (exponents >= 0).any() or (mantissas >= 1 << 31).any():
        raise ValueError("a weight is not below 1; want exponents < 0 and mantissas < 2^31")
    lengths = 30 - exponents.astype(np.int64)
    # The first word of m, cut off or padded to 64 bits; shifts of 64 and more are undefined, so two steps of <= 63.
    padded = mantissas.astype(np.uint64) << np.clip(_WORD - lengths, 0, 63).astype(np.uint64)
    thresholds = padded >> np.clip(lengths - _WORD, 0, 63).astype(np.uint64)
    revealed = entropy.words(exponents.size)
    drawn = (revealed < thresholds).astype(np.int64)
    for index in np.flatnonzero((revealed == thresholds) & (lengths > _WORD)):
        rest = int(lengths[index]) - _WORD
        drawn[index] = entropy.below(1 << rest) < int(mantissas[index]) & ((1 << rest) - 1)
    return drawn
