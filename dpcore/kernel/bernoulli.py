"""Exact independent bits with given probabilities. TRUSTED.

A probability is an integer weight m * 2^(e - 30) with mantissa m in [2^30, 2^31) and exponent e < 0, in the form that
``weighted_sampler`` computes. With k = 30 - e the probability is m / 2^k, so a bit is 1 exactly when a uniform k-bit
integer is below m. The first 64 bits of that integer nearly always decide the comparison. When they equal the first 64
bits of m, the remaining bits are drawn and compared as integers of any size. No float decides a bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel import entropy

_WORD = 64


def bits(exponents: NDArray[np.int32], mantissas: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Draws independent bits, int64 [n], each 1 with probability exactly mantissa * 2^(exponent - 30) and else 0.

    exponents: int32 [n], negative. SENSITIVE.
    mantissas: uint32 [n], in [2^30, 2^31). SENSITIVE.

    Raises ValueError for a weight of 1 or more. The message names no weight.
    """
    if (exponents >= 0).any() or (mantissas >= 1 << 31).any():
        raise ValueError("a probability is not below 1; want exponents < 0 and mantissas < 2^31")
    lengths = 30 - exponents.astype(np.int64)
    # The first 64 bits of m as a k-bit integer, or m padded to 64 bits. A shift by 64 or more is undefined, so that the
    # shifts are limited to 63, which already leaves nothing of a mantissa of 31 bits.
    padded = mantissas.astype(np.uint64) << np.clip(_WORD - lengths, 0, 63).astype(np.uint64)
    thresholds = padded >> np.clip(lengths - _WORD, 0, 63).astype(np.uint64)
    words = entropy.words(exponents.size)
    bits_drawn = (words < thresholds).astype(np.int64)
    for index in np.flatnonzero((words == thresholds) & (lengths > _WORD)):
        remaining_bits = int(lengths[index]) - _WORD
        remainder = int(mantissas[index]) & ((1 << remaining_bits) - 1)
        bits_drawn[index] = entropy.below(1 << remaining_bits) < remainder
    return bits_drawn
