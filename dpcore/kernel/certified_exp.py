"""exp(-x) in doubles with a proved error, for comparisons that exact arithmetic repeats where they are close. TRUSTED.

Proof, with u = 2^-53, for x in [0, 32) as a double: only +, -, * and conversions of IEEE doubles are used, each with a
relative error of at most u, or none where two of them are fused. x = i / 64 + r with r in [0, 1/64), and r is exact or,
fused, off by less than 2^-46. The table is off by less than 2^-52 relative, the polynomial of degree 5 by less than
r^6 / 720 < 2^-45 and, for its ten roundings of numbers of size at most 1, by less than 2^-49. Together the relative
error of the result is below 2^-44.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel.exact_exp import exp_bounds

LARGEST_EXPONENT: Final = 32.0  # ``exp_of_negative`` takes smaller exponents only.


def _exp_table() -> NDArray[np.float64]:
    """exp(-i / 64) for i < 2048: integer powers of one lower bound, so off by less than 2^-130 before the rounding."""
    low, _ = exp_bounds(Fraction(1, 64), 192)
    powers = [1 << 192]
    for _ in range(2047):
        powers.append(powers[-1] * low >> 192)
    return np.array([power / (1 << 192) for power in powers])


EXP_TABLE: Final = _exp_table()
EXP_TABLE.setflags(write=False)


@compiled
def exp_of_negative(x: float, table: NDArray[np.float64]) -> float:
    """exp(-x) for x in [0, LARGEST_EXPONENT); ``table`` is EXP_TABLE. Its error is that of the module docstring."""
    index = np.int64(x * 64.0)
    r = x - index * 0.015625
    series = 1.0 - r * (1.0 - r * (0.5 - r * (1.0 / 6.0 - r * (1.0 / 24.0 - r * (1.0 / 120.0)))))
    return float(table[index] * series)
