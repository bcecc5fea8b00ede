"""exp(-x) of a rational x between two integers, at any precision: the slow arithmetic behind exact noise. TRUSTED."""

from __future__ import annotations

from fractions import Fraction


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-x) <= high, a few units apart, for x >= 0.

    Proof. exp(0) = 1. For x >= bits, exp(-x) < 2^-bits. Else x = 2^h y with y < 1/2, and y becomes a fixed-point number
    of p bits, rounded up for the lower bound and down for the upper one, because exp(-y) falls. The Taylor series of
    exp(-y) has terms of alternating sign and falling size. Term n is y / n times the one before, rounded down: its
    error is below 1 plus half of the error before, so below 2. The sum stops at a term that is rounded to 0, so what is
    cut off is below 2: with n terms the sum is off by less than 2 n + 2. The h squarings round the bounds outwards.
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
    """Bounds of 2^precision exp(-y / 2^precision), for 0 <= y <= 2^(precision - 1)."""
    total, term, count = 0, 1 << precision, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = term * y // (count << precision)
    return max(0, total - 2 * count - 2), total + 2 * count + 2
