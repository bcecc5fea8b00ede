"""Scales round up, by at most one double, and opendp reads them as the formulas do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.kernel.budget import Currency
from dpcore.kernel.noise import add_noise, noise_of, noise_scale, noisy_argmax, selection_scale
from dpcore.measurement import Noise

amounts = st.fractions(min_value=Fraction(1, 10**9), max_value=1000)
sensitivities = st.integers(1, 10**9)
VECTORS = dp.vector_domain(dp.atom_domain(T="i64"))


@given(amount=amounts, l1=sensitivities, squared_l2=sensitivities)
def test_noise_costs_at_most_the_amount_and_a_smaller_scale_would_not(
    amount: Fraction, l1: int, squared_l2: int
) -> None:
    scale = noise_scale(Currency.PURE, amount, l1, squared_l2)
    assert l1 / Fraction(scale) <= amount < l1 / Fraction(math.nextafter(scale, 0))
    sigma = noise_scale(Currency.ZCDP, amount, l1, squared_l2)
    assert squared_l2 / (2 * Fraction(sigma) ** 2) <= amount
    assert amount < squared_l2 / (2 * Fraction(sigma * (1 - 1e-15)) ** 2)


@given(amount=amounts, sensitivity=sensitivities)
def test_a_selection_costs_at_most_the_amount_and_a_smaller_scale_would_not(amount: Fraction, sensitivity: int) -> None:
    scale = selection_scale(Currency.PURE, amount, sensitivity)
    assert 2 * sensitivity / Fraction(scale) <= amount < 2 * sensitivity / Fraction(math.nextafter(scale, 0))
    gumbel = selection_scale(Currency.ZCDP, amount, sensitivity)
    assert (2 * sensitivity / Fraction(gumbel)) ** 2 / 8 <= amount
    assert amount < (2 * sensitivity / Fraction(gumbel * (1 - 1e-15))) ** 2 / 8


@pytest.mark.parametrize("amount", [Fraction(1, 3), Fraction(2), Fraction(1, 1000)])
@pytest.mark.parametrize("sensitivity", [1, 7])
def test_the_sampler_promises_the_same_cost_for_the_same_scale(amount: Fraction, sensitivity: int) -> None:
    laplace = dp.m.make_laplace(
        VECTORS, dp.l1_distance(T="i64"), noise_scale(Currency.PURE, amount, sensitivity, 1)
    ).map(sensitivity)
    gauss = dp.m.make_gaussian(
        VECTORS, dp.l2_distance(T="f64"), noise_scale(Currency.ZCDP, amount, 1, sensitivity**2)
    ).map(float(sensitivity))
    assert laplace == pytest.approx(float(amount), rel=1e-12)
    assert gauss == pytest.approx(float(amount), rel=1e-12)
    for currency, output in (
        (Currency.PURE, dp.max_divergence()),
        (Currency.ZCDP, dp.zero_concentrated_divergence()),
    ):
        scale = selection_scale(currency, amount, sensitivity)
        selection = dp.m.make_noisy_max(VECTORS, dp.linf_distance(T="i64"), output, scale=scale)
        assert selection.map(sensitivity) == pytest.approx(float(amount), rel=1e-12)


def test_each_currency_has_its_noise() -> None:
    assert noise_of(Currency.PURE) is Noise.LAPLACE
    assert noise_of(Currency.ZCDP) is Noise.GAUSSIAN


@pytest.mark.parametrize("noise", list(Noise))
def test_noise_is_whole_saturates_and_differs_each_time(noise: Noise) -> None:
    ends = np.iinfo(np.int64)
    noisy = add_noise(np.repeat(np.array([ends.min, ends.max]), 50), noise, 1e6)
    assert noisy.dtype == np.int64
    assert (noisy[:50] < ends.min + 10**9).all()
    assert (noisy[50:] > ends.max - 10**9).all()
    zeros = np.zeros(50, dtype=np.int64)
    assert not np.array_equal(add_noise(zeros, noise, 1e6), add_noise(zeros, noise, 1e6))
    assert not zeros.any()


@pytest.mark.parametrize("currency", list(Currency))
def test_a_score_far_above_the_rest_wins_at_any_size(currency: Currency) -> None:
    """A lead of 100 scales loses with a chance below 1e-40."""
    for size in (10**3, 2**60):
        assert noisy_argmax(np.array([-size, 0, size]), currency, size / 100) == 2
