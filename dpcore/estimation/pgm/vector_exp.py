"""exp of many doubles, in arithmetic that a compiler turns into vector instructions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_CHUNK: Final = 512
_SMALLEST: Final = -708.0  # exp of less is called 0.
_LOG2_E: Final = 1.4426950408889634
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_WHOLE: Final = 6755399441055744.0  # 3 * 2^51: adding it leaves the nearest whole number in the last bits.


@compiled
def exp_in_place(values: NDArray[np.float64]) -> None:
    """Replaces every value, at most 0 and possibly -inf, by its exponential; relative error below 4 units of 2^-53.

    exp(x) = 2^k exp(r) with |r| <= ln 2 / 2; exp(r) is its Taylor polynomial of degree 12, 2^k is made from its bits.
    """
    powers = np.empty(_CHUNK)
    bits = powers.view(np.int64)
    for begin in range(0, values.size, _CHUNK):
        chunk = values[begin : begin + _CHUNK]
        for i in range(chunk.size):
            x = max(chunk[i], _SMALLEST)
            k = (x * _LOG2_E + _WHOLE) - _WHOLE
            r = (x - k * _LN2_HIGH) - k * _LN2_LOW
            p = 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            # The bits of 2^k are k + 1023 in the exponent; 0 there is the double 0.
            powers[i] = _WHOLE + (k + 1023.0 if x > _SMALLEST else 0.0)
            chunk[i] = p * r + 1.0
        for i in range(chunk.size):
            bits[i] = bits[i] << 52
        for i in range(chunk.size):
            chunk[i] *= powers[i]
