"""The exponential of many doubles, in arithmetic that a compiler turns into vector instructions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_SMALLEST: Final = -709.0  # For this exponent k = -1023, and 2^k becomes 0.
_LOG2_E: Final = 1.4426950408889634
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_WHOLE: Final = 6755399441055744.0  # 3 * 2^51: adding it leaves the nearest whole number in the last bits.


@compiled
def exp_of(values: NDArray[np.float64], shift: float, exponentials: NDArray[np.float64]) -> None:
    """Sets ``exponentials`` to exp(value - shift) of every value, with a relative error below 4 units of 2^-53.

    values: float64, at most the shift, possibly -inf. The exponential of a value more than 708.7 below the shift is 0.
    shift: A finite number.
    exponentials: float64, as long as the values. It should not share memory with them, which makes the loop slow.

    exp(x) = 2^k exp(r) with |r| <= ln 2 / 2. exp(r) is its Taylor polynomial of degree 12, its odd and even terms side
    by side; 2^k is made from its bits.
    """
    power = np.empty(1)
    bits = power.view(np.int64)
    for i in range(values.size):
        x = max(values[i] - shift, _SMALLEST)
        shifted = x * _LOG2_E + _WHOLE
        k = shifted - _WHOLE
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        s = r * r
        even = s * (1 / 479001600) + 1 / 3628800
        even = even * s + 1 / 40320
        even = even * s + 1 / 720
        even = even * s + 1 / 24
        even = even * s + 1 / 2
        odd = s * (1 / 39916800) + 1 / 362880
        odd = odd * s + 1 / 5040
        odd = odd * s + 1 / 120
        odd = odd * s + 1 / 6
        power[0] = shifted + 1023.0
        bits[0] = bits[0] << 52  # The last bits, k + 1023, are the exponent of 2^k; 0 there is the double 0.
        exponentials[i] = power[0] * (((odd * r + even) * s + r) + 1.0)
