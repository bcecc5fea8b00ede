"""The envelope covers its law everywhere, and what it calls inside lies below the law: both in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.errors import ScaleError
from dpcore.kernel.envelope import LARGEST_SCALE, RECTANGLES, SMALLEST_SCALE, TAIL, UNUSED, Envelope, Law, envelope
from dpcore.measurement import Noise
from tests.support.decimals import scaled_exp

SCALES = [SMALLEST_SCALE, 0.001, 0.3, 1.0, 2.7, 4.0, 7.999, 8.0, 10.0, 1000.0, 123456.789, LARGEST_SCALE]
LAWS = [Law(noise, scale) for noise in Noise for scale in SCALES]


def g(made: Envelope, z: Fraction) -> Fraction:
    return scaled_exp(made.law.energy(z), 0)


def width(made: Envelope) -> Fraction:
    return Fraction(2) ** made.width_bits


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_rectangles_of_a_bin_cover_it(law: Law) -> None:
    made = envelope(law)
    for chosen in range(made.tail):
        ranks = made.ranks[made.bins == chosen]
        assert np.array_equal(ranks, np.arange(ranks.size))
        assert ranks.size >= made.height * g(made, chosen * width(made))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_rectangle_that_is_inside_lies_below_the_law(law: Law) -> None:
    made = envelope(law)
    last = width(made) - (0 if law.is_real else 1)
    for chosen in range(made.tail):
        tops = made.ranks[(made.bins == chosen) & made.inside] + 1
        right = made.height * g(made, chosen * width(made) + last)
        assert all(int(top) <= right for top in tops)
    assert not made.inside[made.bins < 0].any()
    assert made.inside.mean() > 0.7  # Most proposals need no comparison.


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_tail_is_covered_and_one_choice_in_all(law: Law) -> None:
    made = envelope(law)
    assert np.flatnonzero(made.bins == TAIL).tolist() == [RECTANGLES - 1]
    assert set(np.unique(made.bins)) <= set(range(made.tail)) | {TAIL, UNUSED}
    for index in range(16):
        left = (made.tail + 8 * index) * width(made)
        assert g(made, left) <= Fraction(1, made.height << (index + 24))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_energies_before_the_tail_fit_the_table_of_exponentials(law: Law) -> None:
    made = envelope(law)
    assert law.energy(made.tail * width(made) - (0 if law.is_real else 1)) < 32


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize(
    "scale", [0.0, -1.0, math.nextafter(SMALLEST_SCALE, 0), math.nextafter(LARGEST_SCALE, math.inf), math.inf, math.nan]
)
def test_other_scales_are_refused(noise: Noise, scale: float) -> None:
    with pytest.raises(ScaleError, match=r"noise scale .* counts; want 2\^-20 <= scale <= 2\^40"):
        Law(noise, scale)


def test_a_scale_is_the_rational_that_its_double_is() -> None:
    assert Law(Noise.LAPLACE, 0.1).energy(Fraction(3)) == 3 / Fraction(0.1)
    assert Law(Noise.GAUSSIAN, 0.1).energy(Fraction(3)) == 9 / (2 * Fraction(0.1) ** 2)
    assert Law(Noise.ROUNDED_GAUSSIAN, 0.1).energy(Fraction(3 * 1024)) == 9 / (2 * Fraction(0.1) ** 2)
