"""Exact noise on integers, from opendp: one sampler for each guarantee, no seed. TRUSTED.

opendp is the reference for the discrete Laplace and Gaussian (Canonne, Kamath and Steinke 2020) and for selection by
noisy maximum; this file only builds its measurements and rounds every scale up.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from dpcore.kernel.budget import Currency
from dpcore.measurement import Noise

dp.enable_features("contrib")


def noise_of(currency: Currency) -> Noise:
    """The law of additive noise under each currency."""
    return Noise.LAPLACE if currency is Currency.PURE else Noise.GAUSSIAN


def noise_scale(currency: Currency, amount: Fraction, l1: int, squared_l2: int) -> float:
    """Smallest double scale whose exact noise costs at most ``amount``.

    Discrete Laplace: epsilon = l1 / b. Discrete Gaussian: rho = l2^2 / (2 sigma^2) (Canonne et al. 2020, Theorem 4).
    """
    if currency is Currency.PURE:
        return _double_at_least(Fraction(l1) / amount)
    return _double_root_at_least(Fraction(squared_l2) / (2 * amount))


def selection_scale(currency: Currency, amount: Fraction, sensitivity: int) -> float:
    """Smallest double scale whose noisy maximum over scores of this sensitivity costs at most ``amount``.

    The selection has bounded range epsilon = 2 sensitivity / scale, so it is epsilon-DP and epsilon^2/8-zCDP
    (bounded range: Durfee and Rogers 2019; its zCDP: Cesar and Rogers 2021).
    """
    if currency is Currency.PURE:
        return _double_at_least(Fraction(2 * sensitivity) / amount)
    return _double_root_at_least(Fraction(sensitivity**2) / (2 * amount))


def add_noise(exact: NDArray[np.int64], noise: Noise, scale: float) -> NDArray[np.int64]:
    """Independent exact noise on each integer; sums saturate at the int64 bounds."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if noise is Noise.LAPLACE:
        measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        measure = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
    return np.asarray(measure(exact), dtype=np.int64)


def noisy_argmax(scores: NDArray[np.int64], currency: Currency, scale: float) -> int:
    """Index of the largest score after noise: exponential noise under pure DP, Gumbel noise under zCDP."""
    output = dp.max_divergence() if currency is Currency.PURE else dp.zero_concentrated_divergence()
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_noisy_max(domain, dp.linf_distance(T="i64"), output, scale=scale)
    return int(measure(scores))


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
