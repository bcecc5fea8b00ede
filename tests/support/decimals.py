"""Exponentials to 120 digits by Python's decimal arithmetic, which shares nothing with the kernel's."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction


def scaled_exp(x: Fraction, bits: int) -> Fraction:
    """2^bits exp(-x), off by less than 10^-110 of itself."""
    with localcontext() as context:
        context.prec = 120
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp()) * 2**bits
