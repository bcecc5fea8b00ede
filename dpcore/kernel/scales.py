"""The noise scale that a cost pays for, rounded towards more noise. TRUSTED."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from dpcore.kernel.budget import Currency
from dpcore.kernel.gaussian_dp import bounded_range_of_gdp
from dpcore.kernel.noise import representable_scale
from dpcore.measurement import Noise

_NOISE: Final[dict[Currency, Noise]] = {
    Currency.PURE: Noise.LAPLACE,
    Currency.ZCDP: Noise.GAUSSIAN,
    Currency.GDP: Noise.ROUNDED_GAUSSIAN,
}


def noise_of(currency: Currency) -> Noise:
    """The law of additive noise that belongs to a currency."""
    return _NOISE[currency]


def noise_scale(currency: Currency, amount: Fraction, l1: int, squared_l2: int) -> float:
    """Scale of additive noise that costs at most ``amount``, rounded up to a double that the sampler can draw.

    currency: Determines the law of the noise.
    amount: The cost, in the currency.
    l1: L1 sensitivity of the integer answers.
    squared_l2: Squared L2 sensitivity of the integer answers.

    Formal guarantee, for integer answers:
        * Discrete Laplace noise of scale b is l1/b-DP (Ghosh, Roughgarden and Sundararajan 2012).
        * Discrete Gaussian noise of scale sigma is squared_l2 / (2 sigma^2)-zCDP (Canonne, Kamath and Steinke 2020,
          Theorem 4).
        * Rounded Gaussian noise of scale sigma is mu-GDP with mu^2 = squared_l2 / sigma^2 (Dong, Roth and Su 2022,
          Theorem 1). An exact answer x is a whole number of noise steps, so x + round(N) = round(x + N). The mechanism
          is therefore the continuous Gaussian mechanism, followed by a rounding that depends on its output alone.

    Raises ScaleError for a scale above 2^40.
    """
    match currency:
        case Currency.PURE:
            scale = _double_at_least(Fraction(l1) / amount)
        case Currency.ZCDP:
            scale = _double_root_at_least(Fraction(squared_l2) / (2 * amount))
        case Currency.GDP:
            scale = _double_root_at_least(Fraction(squared_l2) / amount)
    return representable_scale(noise_of(currency), scale)


def selection_scale(currency: Currency, amount: Fraction, sensitivity: int) -> float:
    """Scale of a noisy maximum that costs at most ``amount``, rounded up to a double.

    currency: Determines the mechanism (``noisy_maximum``).
    amount: The cost, in the currency.
    sensitivity: Upper bound on how far one unit moves any score, in steps of the scores.

    Formal guarantee, with epsilon = 2 sensitivity / scale:
        * Permute-and-flip, under pure DP, is epsilon-DP (McKenna and Sheldon 2020; Ding, Kifer et al. 2021).
        * The exponential mechanism has bounded range epsilon (Durfee and Rogers 2019). It is therefore epsilon^2/8-zCDP
          (Cesar and Rogers 2021), and Gaussian-DP as ``gaussian_dp.gdp_of_bounded_range`` proves.
    """
    match currency:
        case Currency.PURE:
            return _double_at_least(Fraction(2 * sensitivity) / amount)
        case Currency.ZCDP:
            return _double_root_at_least(Fraction(sensitivity**2) / (2 * amount))
        case Currency.GDP:
            return _double_at_least(Fraction(2 * sensitivity) / bounded_range_of_gdp(amount))


def _double_at_least(bound: Fraction) -> float:
    """A double at or just above ``bound``, compared exactly."""
    scale = float(bound)
    while Fraction(scale) < bound:
        scale = math.nextafter(scale, math.inf)
    return scale


def _double_root_at_least(square: Fraction) -> float:
    """A double at or just above the square root of ``square``, compared exactly."""
    scale = math.sqrt(float(square))
    while Fraction(scale) ** 2 < square:
        scale = math.nextafter(scale, math.inf)
    return scale
