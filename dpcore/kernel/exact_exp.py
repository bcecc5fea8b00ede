"""Integer bounds on exp(-x) for a rational x at any precision, for exact comparisons in the samplers. TRUSTED."""

from __future__ import annotations

from fractions import Fraction


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low and high with low <= 2^bits exp(-x) <= high, a few units apart.

    x: At least 0.
    bits: Number of fractional bits of the bounds.

    Proof. For x = 0 the value is 1. For x >= bits, exp(-x) < 2^-bits. Otherwise write x = 2^h y with y < 1/2. y becomes
    a fixed-point number of p bits, rounded up for the lower bound and down for the upper bound, because exp(-y)
    decreases. The Taylor series of exp(-y) has terms of alternating sign and decreasing size. Term n is y / n times
    term n - 1, rounded down. Its error is below 1 plus half the error of term n - 1, and therefore below 2. The sum
    stops at a term that rounds to 0, so the omitted terms sum to less than 2. With n terms the error of the sum is
    below 2 n + 2. The h squarings that follow round the bounds outwards.

    Raises ValueError for a negative x.
    """
    if x < 0:
        raise ValueError(f"exponent -x with x = {float(x):.3g}; want x >= 0")
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:
        return 0, 1
    halvings = (x.numerator // x.denominator).bit_length() + 1
    precision = bits + 2 * halvings + 16
    y = (x.numerator << precision) // (x.denominator << halvings)
    low, high = _series(y + 1, precision)[0], _series(y, precision)[1]
    for _ in range(halvings):
        low, high = low * low >> precision, (high * high >> precision) + 1
    spare = precision - bits
    return low >> spare, (high >> spare) + 1


def _series(y: int, precision: int) -> tuple[int, int]:
    """Integer bounds on 2^precision exp(-y / 2^precision), for 0 <= y <= 2^(precision - 1)."""
    total, term, count = 0, 1 << precision, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = term * y // (count << precision)
    return max(0, total - 2 * count - 2), total + 2 * count + 2
