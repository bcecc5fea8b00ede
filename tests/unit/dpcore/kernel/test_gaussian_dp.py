"""Costs under Gaussian DP, against their definition in high precision."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from dpcore.kernel.gaussian_dp import bounded_range_of_gdp, gdp_of_bounded_range, gdp_of_pure

RANGES = [1e-9, 1e-4, 0.01, 0.3, 1.0, 3.9, 4.1, 7.9, 8.1, 15.0, 40.0]
mpmath.mp.dps = 60


def normal_quantile(p: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


def coins(epsilon: float, t: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Chances of heads whose log-ratio is t while that of tails is t - epsilon: an extreme pair of a bounded range."""
    heads = mpmath.expm1(mpmath.mpf(t) - epsilon) / mpmath.expm1(-mpmath.mpf(epsilon))
    return heads, heads * mpmath.exp(-mpmath.mpf(t))


@pytest.mark.parametrize("epsilon", RANGES)
def test_no_pair_of_coins_is_easier_to_tell_apart_than_the_middle_one(epsilon: float) -> None:
    mu = mpmath.sqrt(_exactly(gdp_of_bounded_range(Fraction(epsilon))))
    found = []
    for part in [*np.linspace(0, 1, 101)[1:-1], 1e-6, 1 - 1e-6, 0.4999, 0.5001]:
        p, q = coins(epsilon, float(part) * epsilon)
        found.append(normal_quantile(p) - normal_quantile(q))
    assert max(found) <= mu
    p, q = coins(epsilon, epsilon / 2)
    assert abs((normal_quantile(p) - normal_quantile(q)) / mu - 1) < 3e-9
    assert abs(max(found) / mu - 1) < 3e-9


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 6.0])
def test_the_trade_off_of_every_pair_lies_above_that_of_the_gaussians(epsilon: float) -> None:
    """Straight from the definition: least type II error at each type I error, on a grid."""
    mu = float(gdp_of_bounded_range(Fraction(epsilon))) ** 0.5
    alpha = np.linspace(0, 1, 20_001)[1:-1]
    gaussian = ndtr(ndtri(1 - alpha) - mu)
    slack = []
    for t in np.linspace(0, epsilon, 41):
        heads, tails = (float(chance) for chance in coins(epsilon, float(t)))
        least = np.interp(alpha, [0.0, 1 - heads, 1.0], [1.0, tails, 0.0])
        slack.append((least - gaussian).min())
    assert min(slack) > -1e-9
    weaker = ndtr(ndtri(1 - alpha) - 0.99 * mu)  # One percent less would be wrong.
    heads, tails = (float(chance) for chance in coins(epsilon, epsilon / 2))
    assert (np.interp(alpha, [0.0, 1 - heads, 1.0], [1.0, tails, 0.0]) < weaker).any()


def test_the_last_step_of_the_proof_on_a_fine_grid() -> None:
    """phi / (Phi (1 - Phi)) rises on z >= 0, through the sign of D."""
    for z in [k / mpmath.mpf(100) for k in range(1, 1500)]:
        phi, below, above = mpmath.npdf(z), mpmath.ncdf(z), mpmath.ncdf(-z)
        assert phi * (below - above) - z * below * above > 0


@pytest.mark.parametrize("epsilon", RANGES)
def test_a_pure_mechanism_costs_what_randomised_response_does(epsilon: float) -> None:
    truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    wanted = (2 * normal_quantile(truth)) ** 2
    assert 0 <= _exactly(gdp_of_pure(Fraction(epsilon))) / wanted - 1 < 3e-9


def test_a_small_range_costs_half_pi_of_its_zcdp() -> None:
    assert float(gdp_of_bounded_range(Fraction(1, 1000))) == pytest.approx(np.pi / 2 * 2 * (1e-6 / 8), rel=1e-6)
    assert gdp_of_bounded_range(Fraction(0)) == 0


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=5000))
def test_the_range_for_an_amount_never_costs_more_and_hardly_less(amount: Fraction) -> None:
    cost = gdp_of_bounded_range(bounded_range_of_gdp(amount))
    assert amount * (1 - Fraction(1, 10**7)) <= cost <= amount * (1 + Fraction(3, 10**9))
    # Against the definition, not against our own inverse: the range itself is affordable.
    if amount < 100:
        half = mpmath.mpf(1) / 2 * _exactly(bounded_range_of_gdp(amount))
        assert (2 * normal_quantile(1 / (1 + mpmath.exp(-half)))) ** 2 <= _exactly(amount)


@given(st.fractions(0, 300), st.fractions(0, 1))
def test_a_wider_range_never_costs_less(width: Fraction, more: Fraction) -> None:
    assert gdp_of_bounded_range(width) <= gdp_of_bounded_range(width + more) * (1 + Fraction(1, 10**9))


def _exactly(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("mu", [1e-3, 1e-6, 1e-10])
def test_a_tiny_range_keeps_its_digits(mu: float) -> None:
    """logit(Phi(z)) = 4 z / sqrt(2 pi) up to terms of third order."""
    wanted = 2 * (mu / 2) * 4 / math.sqrt(2 * math.pi)
    assert float(bounded_range_of_gdp(Fraction(mu) ** 2)) == pytest.approx(wanted, rel=1e-8 + mu**2, abs=0)
