"""``sample`` against exp(slope c / n0 + offset) over queries and complements.

Each case makes 40,000 draws and fails by chance once in 10^6; a slope 30 % off gives a noncentrality
above 900 at 7 degrees of freedom, where the limit for 10^-6 is 40.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.support.laws import OFFSETS, REJECT_BELOW, SLOPE, WRONG_BY, p_value, sampled

DRAWS = 40_000


@pytest.mark.parametrize("n0", [10, 30, 50])
def test_the_law_of_a_draw(n0: int) -> None:
    """30 baskets: a noisy number of units may be smaller (counts are clamped) or larger."""
    counts, law = sampled(n0, DRAWS)
    assert p_value(counts, law(float(SLOPE))) > REJECT_BELOW
    assert p_value(counts, law(float(SLOPE) * (1 - WRONG_BY))) < REJECT_BELOW
    assert p_value(counts, law(float(SLOPE) * (1 + WRONG_BY))) < REJECT_BELOW


def test_a_negative_slope_prefers_what_is_rare() -> None:
    counts, law = sampled(30, DRAWS, -SLOPE)
    assert p_value(counts, law(-float(SLOPE))) > REJECT_BELOW
    assert p_value(counts, law(float(SLOPE))) < REJECT_BELOW


def test_without_slope_the_offsets_alone_decide() -> None:
    counts, _ = sampled(30, DRAWS, Fraction(0))
    assert p_value(counts, np.exp(OFFSETS)) > REJECT_BELOW
    assert p_value(counts, np.exp(OFFSETS * (1 - WRONG_BY))) < REJECT_BELOW
    assert p_value(counts, np.exp(OFFSETS * (1 + WRONG_BY))) < REJECT_BELOW
