"""The parts of exact arithmetic that random words hardly ever reach: the tail, and many revealed bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from dpcore.kernel import entropy, exact_rejection
from dpcore.kernel.envelope import LARGEST_SCALE, RECTANGLES, Law, envelope
from dpcore.kernel.exact_rejection import LARGEST, LOW_BITS, Revealed, decide, decide_tail, is_below
from dpcore.measurement import Noise
from tests.support.decimals import scaled_exp
from tests.support.laws import REJECT_BELOW, p_value
from tests.support.noise_distributions import distribution

TRIES = 60_000


@pytest.mark.full
@pytest.mark.parametrize(
    "law", [Law(Noise.LAPLACE, 10.0), Law(Noise.GAUSSIAN, 40.0), Law(Noise.ROUNDED_GAUSSIAN, 0.02)]
)
def test_the_tail_has_the_law_of_what_lies_beyond(law: Law) -> None:
    """Shape and total of the accepted proposals, each with a false alarm of 1e-6.

    A Gaussian accepts about 155: twice or a third of it is over 5 standard deviations beyond the limit. The Laplace
    accepts some 15,000: there an energy 1.5 times too large fails for certain.
    """
    made = envelope(law)
    start = made.tail * 2**made.width_bits
    found = [decide_tail(made) for _ in range(TRIES)]
    beyond = np.array([math.floor(z.low) - start for z in found if z is not None])
    z = start + np.arange(400) + (0.5 if law.is_real else 0.0)
    energy = z**2 / (2 * float(law.steps) ** 2) if law.is_gaussian else z / float(law.steps)
    counts = np.bincount(beyond, minlength=400)
    assert counts.size == 400
    assert p_value(counts, np.exp(-energy)) > REJECT_BELOW
    if law.noise is Noise.LAPLACE:
        assert p_value(counts, np.exp(-1.5 * energy)) < REJECT_BELOW
    accepted = float(np.exp(-energy).sum()) * made.height * 2**20 / 2**made.width_bits
    assert binomtest(beyond.size, TRIES, accepted).pvalue > REJECT_BELOW
    assert binomtest(beyond.size, TRIES, 2 * accepted).pvalue < REJECT_BELOW
    assert binomtest(beyond.size, TRIES, accepted / 3).pvalue < REJECT_BELOW


@pytest.mark.parametrize(("next_bits", "below"), [(0, True), (2**64 - 1, False)])
def test_a_real_abscissa_is_revealed_when_the_comparison_needs_it(
    next_bits: int, below: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At z = 1.0... of one sigma the height lies between g(1) and g(1 + 2^-51): the next bits of z decide."""
    law = Law(Noise.ROUNDED_GAUSSIAN, 2.0**-10)  # One step.
    place = Revealed(1 << 51, 51)
    height = Revealed(int(scaled_exp(Fraction(1, 2), 64)) - 2**10, 64)
    answers = [0, next_bits]  # For the height, then for z.
    monkeypatch.setattr(entropy, "below", lambda bound: answers.pop(0))
    assert is_below(law, place, height, 1) is below
    assert (place.bits, height.bits, answers) == (115, 128, [])


@pytest.mark.parametrize(
    "law", [Law(Noise.LAPLACE, 2.7), Law(Noise.GAUSSIAN, 2.7), Law(Noise.ROUNDED_GAUSSIAN, 0.0027)]
)
def test_exact_arithmetic_alone_draws_the_law(law: Law) -> None:
    """False alarms 1e-6. A scale 15 % off slips through with a chance below 1e-15: noncentrality 212, limit 51."""
    words = entropy.words(2 * 15_000).reshape(-1, 2).tolist()
    values = [decide(envelope(law), word, second) for word, second in words]
    draws = np.array([value for value in values if value is not None])
    z = np.arange(-200.0, 201.0)
    counts = np.bincount(draws + 200, minlength=z.size)

    def chances(wrong_by: float) -> NDArray[np.float64]:
        made = distribution(law.noise, law.scale * (1 + wrong_by))
        return made.cdf(z) - made.cdf(z - 1)

    assert p_value(counts, chances(0.0)) > REJECT_BELOW
    assert p_value(counts, chances(0.15)) < REJECT_BELOW
    assert p_value(counts, chances(-0.15)) < REJECT_BELOW


def test_a_value_beyond_64_bits_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run will ever see one; it is forced here."""
    law = Law(Noise.ROUNDED_GAUSSIAN, LARGEST_SCALE)
    far = Revealed(1 << (LOW_BITS + 70), LOW_BITS)
    monkeypatch.setattr(exact_rejection, "decide_tail", lambda made: far)
    word = (RECTANGLES - 1) << (LOW_BITS + 1)
    assert decide(envelope(law), word, 0) == LARGEST
    assert decide(envelope(law), word + (1 << LOW_BITS), 0) == -LARGEST
