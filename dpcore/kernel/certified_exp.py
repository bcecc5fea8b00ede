"""exp(-x) in double precision with a proved error bound. TRUSTED.

The samplers compare random numbers with this function. Where the two sides are closer than the error bound allows,
exact arithmetic repeats the comparison.

Claim. For a double x in [0, 32) the relative error of ``exp_of_negative`` is below 2^-44.

Proof. Only +, -, * and conversions of IEEE doubles are used. Each has a relative error of at most u = 2^-53, or none
when the compiler fuses two of them. Write x = i / 64 + r with an integer i and r in [0, 1/64).
    * r is exact, or off by less than 2^-46 when operations are fused.
    * The table entry exp(-i / 64) has a relative error below 2^-52.
    * The Taylor polynomial of degree 5 differs from exp(-r) by less than r^6 / 720 < 2^-45.
    * The ten roundings within the polynomial, of numbers of size at most 1, add less than 2^-49.
Together the relative error is below 2^-44.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel.exact_exp import exp_bounds

LARGEST_EXPONENT: Final = 32.0  # The error bound holds for smaller exponents only.


def _exp_table() -> NDArray[np.float64]:
    """exp(-i / 64) for i < 2048, from integer powers of one lower bound; the error before rounding is below 2^-130."""
    low, _ = exp_bounds(Fraction(1, 64), 192)
    powers = [1 << 192]
    for _ in range(2047):
        powers.append(powers[-1] * low >> 192)
    return np.array([power / (1 << 192) for power in powers])


EXP_TABLE: Final = _exp_table()
EXP_TABLE.setflags(write=False)


@compiled
def exp_of_negative(x: float, table: NDArray[np.float64]) -> float:
    """exp(-x) with the error bound of the module docstring.

    x: In [0, LARGEST_EXPONENT).
    table: EXP_TABLE.
    """
    index = np.int64(x * 64.0)
    r = x - index * 0.015625
    series = 1.0 - r * (1.0 - r * (0.5 - r * (1.0 / 6.0 - r * (1.0 / 24.0 - r * (1.0 / 120.0)))))
    return float(table[index] * series)
