"""Bits against the uniform real whose first words are given: exact for every chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.kernel import bernoulli, entropy

MANTISSAS = st.integers(2**30, 2**31 - 1)
EXPONENTS = st.one_of(st.integers(-40, -1), st.integers(-4097, -1), st.sampled_from([-1, -33, -34, -35, -64, -65, -97]))


def bit_of(exponent: int, mantissa: int, word: int, rest: int) -> int:
    """The bit for the uniform real 0.word rest."""
    chance = Fraction(mantissa, 2**30) * Fraction(2) ** exponent
    length = max(64, 30 - exponent)
    return int(Fraction((word << (length - 64)) + rest, 2**length) < chance)


def drawn_bit(exponent: int, mantissa: int, word: int, rest: int) -> tuple[int, list[int]]:
    """The bit drawn from this word and the rest, and the bounds of what was asked for after the word."""
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "words", lambda count: np.array([word], dtype=np.uint64))
        patch.setattr(entropy, "below", lambda bound: asked.append(bound) or rest)
        drawn = bernoulli.bits(np.array([exponent], dtype=np.int32), np.array([mantissa], dtype=np.uint32))
    return int(drawn[0]), asked


@given(exponent=EXPONENTS, mantissa=MANTISSAS, word=st.integers(0, 2**64 - 1), near=st.integers(-1, 1), rest=st.data())
def test_a_bit_is_1_where_the_uniform_real_lies_below_the_chance(
    exponent: int, mantissa: int, word: int, near: int, rest: st.DataObject
) -> None:
    threshold = int(Fraction(mantissa, 2**30) * Fraction(2) ** exponent * 2**64)
    bits_left = max(0, 30 - exponent - 64)
    later = rest.draw(st.integers(0, 2**bits_left - 1))
    for first in (word, min(max(threshold + near, 0), 2**64 - 1)):
        drawn, asked = drawn_bit(exponent, mantissa, first, later)
        assert drawn == bit_of(exponent, mantissa, first, later)
        assert asked == ([2**bits_left] if first == threshold and bits_left else [])


def test_each_chance_has_a_word_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "words", lambda count: np.array([0, 2**63 - 1, 2**63], dtype=np.uint64)[:count])
    halves = np.full(3, 2**30, dtype=np.uint32)
    assert bernoulli.bits(np.full(3, -1, dtype=np.int32), halves).tolist() == [1, 1, 0]


@pytest.mark.parametrize(("exponent", "mantissa"), [(0, 2**30), (5, 2**30), (-1, 2**31)])
def test_a_weight_of_1_or_more_is_no_chance(exponent: int, mantissa: int) -> None:
    with pytest.raises(ValueError, match="not below 1"):
        bernoulli.bits(np.array([exponent], dtype=np.int32), np.array([mantissa], dtype=np.uint32))


def test_bits_have_their_chances_and_do_not_hang_together() -> None:
    """100,000 pairs: a share is off by five standard deviations less than once in 10^6 runs, a correlation likewise."""
    exponents, mantissas = np.array([-1, -2, -5], dtype=np.int32), np.array([3 << 29, 2**30, 5 << 28], dtype=np.uint32)
    chances = np.array([0.75, 0.25, 5 / 128])
    drawn = bernoulli.bits(np.tile(exponents, 100_000), np.tile(mantissas, 100_000)).reshape(-1, 3)
    spread = np.sqrt(chances * (1 - chances))
    assert (np.abs(drawn.mean(axis=0) - chances) < 5 * spread / np.sqrt(100_000)).all()
    standard = (drawn - chances) / spread
    assert np.abs(np.triu(standard.T @ standard, 1)).max() < 5 * np.sqrt(100_000)
