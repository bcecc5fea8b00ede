"""From a cost to the scale of the noise that it pays for, always rounded towards more noise. TRUSTED."""

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
    """The law of additive noise under each currency."""
    return _NOISE[currency]


def noise_scale(currency: Currency, amount: Fraction, l1: int, squared_l2: int) -> float:
    """Smallest scale that the sampler can draw and whose exact noise costs at most ``amount``.

    Discrete Laplace: epsilon = l1 / b. Discrete Gaussian: rho = l2^2 / (2 sigma^2) (Canonne et al. 2020, Theorem 4).
    Rounded Gaussian: mu^2 = l2^2 / sigma^2 (Dong, Roth and Su 2022, Theorem 1). Exact answers x are whole, so
    x + round(N) = round(x + N): the continuous Gaussian mechanism, then a rounding that sees nothing else.
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
    """Smallest double scale whose noisy maximum over scores of this sensitivity costs at most ``amount``.

    Let epsilon = 2 sensitivity / scale. Exponential noise, under pure DP, is epsilon-DP (permute-and-flip: McKenna and
    Sheldon 2020; Ding, Kifer et al. 2021). Gumbel noise is the exponential mechanism, of bounded range epsilon (Durfee
    and Rogers 2019): epsilon^2/8-zCDP (Cesar and Rogers 2021), and Gaussian-DP as ``gaussian_dp`` proves.
    """
    match currency:
        case Currency.PURE:
            return _double_at_least(Fraction(2 * sensitivity) / amount)
        case Currency.ZCDP:
            return _double_root_at_least(Fraction(sensitivity**2) / (2 * amount))
        case Currency.GDP:
            return _double_at_least(Fraction(2 * sensitivity) / bounded_range_of_gdp(amount))


def _double_at_least(wanted: Fraction) -> float:
    scale = float(wanted)
    while Fraction(scale) < wanted:
        scale = math.nextafter(scale, math.inf)
    return scale


def _double_root_at_least(square: Fraction) -> float:
    scale = math.sqrt(float(square))
    while Fraction(scale) ** 2 < square:
        scale = math.nextafter(scale, math.inf)
    return scale
