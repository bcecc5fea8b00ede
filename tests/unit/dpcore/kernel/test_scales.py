"""Scales round up, by little, and opendp reads them as the formulas do."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.kernel.budget import Currency
from dpcore.kernel.scales import noise_of, noise_scale, selection_scale
from dpcore.measurement import Noise

amounts = st.fractions(min_value=Fraction(1, 10**9), max_value=1000)
sensitivities = st.integers(1, 10**9)
dp.enable_features("contrib")
VECTORS = dp.vector_domain(dp.atom_domain(T="i64"))


@given(amount=amounts, l1=st.integers(1, 1000), squared_l2=sensitivities)  # Scales up to 2^40 can be drawn.
def test_noise_costs_at_most_the_amount_and_a_smaller_scale_would_not(
    amount: Fraction, l1: int, squared_l2: int
) -> None:
    scale = noise_scale(Currency.PURE, amount, l1, squared_l2)
    assert l1 / Fraction(scale) <= amount < l1 / Fraction(math.nextafter(scale, 0))
    sigma = noise_scale(Currency.ZCDP, amount, l1, squared_l2)
    assert squared_l2 / (2 * Fraction(sigma) ** 2) <= amount
    assert amount < squared_l2 / (2 * Fraction(sigma * (1 - 1e-15)) ** 2)
    sigma = noise_scale(Currency.GDP, amount, l1, squared_l2)
    assert squared_l2 / Fraction(sigma) ** 2 <= amount < squared_l2 / Fraction(sigma * (1 - 1e-15)) ** 2


def test_a_scale_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="want 2"):
        noise_scale(Currency.PURE, Fraction(1, 10**9), 10**6, 1)
    assert noise_scale(Currency.GDP, Fraction(10**30), 1, 1) == 2.0**-20


@given(amount=amounts, sensitivity=sensitivities)
def test_a_selection_costs_at_most_the_amount_and_a_smaller_scale_would_not(amount: Fraction, sensitivity: int) -> None:
    scale = selection_scale(Currency.PURE, amount, sensitivity)
    assert 2 * sensitivity / Fraction(scale) <= amount < 2 * sensitivity / Fraction(math.nextafter(scale, 0))
    gumbel = selection_scale(Currency.ZCDP, amount, sensitivity)
    assert (2 * sensitivity / Fraction(gumbel)) ** 2 / 8 <= amount
    assert amount < (2 * sensitivity / Fraction(gumbel * (1 - 1e-15))) ** 2 / 8


@given(amount=st.fractions(min_value=Fraction(1, 10**9), max_value=60), sensitivity=sensitivities)
def test_a_selection_under_gaussian_dp_costs_at_most_the_amount(amount: Fraction, sensitivity: int) -> None:
    """Bounded range epsilon = 2 sensitivity / scale costs (2 Phi^-1(1 / (1 + exp(-epsilon / 2))))^2."""
    with mpmath.workdps(50):
        scale = mpmath.mpf(selection_scale(Currency.GDP, amount, sensitivity))
        wanted = mpmath.mpf(amount.numerator) / amount.denominator

        def cost(scale: mpmath.mpf) -> mpmath.mpf:
            chance = 1 / (1 + mpmath.exp(-sensitivity / scale))
            return 8 * mpmath.erfinv(2 * chance - 1) ** 2

        assert cost(scale) <= wanted < cost(scale * (1 - mpmath.mpf(10) ** -8))


@pytest.mark.parametrize("amount", [Fraction(1, 3), Fraction(2), Fraction(1, 1000)])
@pytest.mark.parametrize("sensitivity", [1, 7])
def test_the_sampler_promises_the_same_cost_for_the_same_scale(amount: Fraction, sensitivity: int) -> None:
    laplace = dp.m.make_laplace(
        VECTORS, dp.l1_distance(T="i64"), noise_scale(Currency.PURE, amount, sensitivity, 1)
    ).map(sensitivity)
    gauss = dp.m.make_gaussian(
        VECTORS, dp.l2_distance(T="f64"), noise_scale(Currency.ZCDP, amount, 1, sensitivity**2)
    ).map(float(sensitivity))
    assert laplace == pytest.approx(float(amount), rel=1e-8)
    assert gauss == pytest.approx(float(amount), rel=1e-8)
    for currency, output in (
        (Currency.PURE, dp.max_divergence()),
        (Currency.ZCDP, dp.zero_concentrated_divergence()),
    ):
        scale = selection_scale(currency, amount, sensitivity)
        selection = dp.m.make_noisy_max(VECTORS, dp.linf_distance(T="i64"), output, scale=scale)
        assert selection.map(sensitivity) == pytest.approx(float(amount), rel=1e-12)


def test_the_gumbel_selection_has_the_range_that_gaussian_dp_is_charged_for() -> None:
    """opendp states its zCDP as range^2 / 8 with range = 2 sensitivity / scale: the range is the one of the proof."""
    scale = selection_scale(Currency.GDP, Fraction(1, 5), 3)
    selection = dp.m.make_noisy_max(VECTORS, dp.linf_distance(T="i64"), dp.zero_concentrated_divergence(), scale=scale)
    assert selection.map(3) == pytest.approx((2 * 3 / scale) ** 2 / 8, rel=1e-12)


def test_each_currency_has_its_noise() -> None:
    assert [noise_of(currency) for currency in Currency] == list(Noise)
    assert noise_of(Currency.GDP) is Noise.ROUNDED_GAUSSIAN
