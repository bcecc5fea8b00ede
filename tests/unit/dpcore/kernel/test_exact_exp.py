"""The rational bounds of exp(-x) against Python's decimal arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.kernel.exact_exp import exp_bounds
from tests.support.decimals import scaled_exp


@given(x=st.fractions(0, 200), bits=st.sampled_from([8, 64, 128, 256]))
@example(x=Fraction(0), bits=64)
@example(x=Fraction(1, 10**30), bits=64)
@example(x=Fraction(1, 2), bits=64)
@example(x=Fraction(1), bits=64)
@example(x=Fraction(2**40), bits=64)
@example(x=Fraction(2**53 - 1, 2**53), bits=128)
@example(x=Fraction(4194303, 65536), bits=64)
def test_the_bounds_hold_and_are_close(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    slack = Fraction(2) ** bits / 10**100
    assert 0 <= low <= scaled_exp(x, bits) + slack
    assert high >= scaled_exp(x, bits) - slack
    assert high - low <= 3


def test_more_bits_refine_the_bounds() -> None:
    coarse, fine = exp_bounds(Fraction(7, 3), 64), exp_bounds(Fraction(7, 3), 192)
    assert coarse[0] << 128 <= fine[0] < fine[1] <= coarse[1] << 128


def test_a_negative_x_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x = -0.5; want x >= 0"):
        exp_bounds(Fraction(-1, 2), 64)
