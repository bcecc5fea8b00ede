"""Gaussian differential privacy: its exact curve, and what bounded-range and pure mechanisms cost in it. TRUSTED.

A mechanism is mu-GDP when telling neighbours apart by its output is at least as hard as telling N(0, 1) from N(mu, 1).
Costs are mu^2, which add up (Dong, Roth and Su 2022, Corollary 2), also where each is chosen from earlier outputs.

Every float below carries a relative error far under 1e-12; ``_SLACK`` is added on the safe side of each figure.

Source: Dong, Roth and Su, "Gaussian Differential Privacy", JRSS B 84 (2022).
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.special import erf, erfinv, log_ndtr, ndtri_exp

_SLACK = 1e-9
_SMALL = 4.0  # Below, 1/2 is a good origin of probabilities; above, 0 and 1 are.


def gdp_of_bounded_range(epsilon: Fraction) -> Fraction:
    """mu^2, rounded up, of a mechanism of bounded range epsilon: mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))).

    Bounded range: for neighbours P and Q some t in [0, epsilon] has t - epsilon <= log(P(o) / Q(o)) <= t at all o.

    Proof. (1) P and Q are no easier to tell apart than two coins with chances p and q of heads whose log-ratios are t
    (heads) and t - epsilon (tails): a convex function of the ratio is largest at the ends of its interval. Dividing the
    ratios, the odds of p are exp(epsilon) times those of q, whatever t is.
    (2) The trade-off curve of the coins is two lines that meet at (1 - p, q). That of N(0, 1) and N(mu, 1) is convex
    with the same ends, so it lies below if and only if it does there: Phi^-1(p) - mu <= Phi^-1(q).
    (3) With g(x) = Phi^-1(1 / (1 + exp(-x))) the least mu is the largest g(x) - g(x - epsilon). g is odd. If g' falls
    in |x|, its integral over a window of length epsilon is largest for the window around 0: p = 1 / (1 + exp(-eps/2)),
    q = 1 - p, which is the claim (t = epsilon / 2).
    (4) g' falls in |x| if z -> logit(Phi(z)), its inverse, is convex on z >= 0: if phi / (Phi (1 - Phi)) does not fall.
    Its log-derivative times Phi (1 - Phi) is D = phi (2 Phi - 1) - z Phi (1 - Phi), with D(0) = D(inf) = 0. Then
    D' = 2 phi^2 - Phi (1 - Phi) is positive at 0 and tends to 0, and D'' = phi (2 Phi - 1 - 4 z phi). The bracket is 0
    at 0, falls up to z = 1/sqrt(2) and rises to 1 from there: it is negative, then positive. So D' falls, then rises
    to 0: it is positive, then negative. So D rises, then falls to 0: D >= 0.
    """
    mu = 2 * _normal_quantile_of_logit(float(epsilon) / 2)
    return Fraction(mu * (1 + _SLACK)) ** 2


def gdp_of_pure(epsilon: Fraction) -> Fraction:
    """mu^2, rounded up, of an epsilon-DP mechanism: mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    Losses lie in [-epsilon, epsilon], so this is the bounded range 2 epsilon with its t at the worst place.

    Source: Dong, Roth and Su (2022), equation (5) and Fig. 3 for the trade-off curve of epsilon-DP.
    """
    return gdp_of_bounded_range(2 * epsilon)


def bounded_range_of_gdp(amount: Fraction) -> Fraction:
    """The largest range, rounded down, that costs at most mu^2 = ``amount``: epsilon = 2 logit(Phi(mu / 2))."""
    return Fraction(2 * _logit_of_normal(math.sqrt(float(amount)) / 2) * (1 - _SLACK))


def _normal_quantile_of_logit(x: float) -> float:
    """Phi^-1(1 / (1 + exp(-x))) for x >= 0, to nearly full relative accuracy.

    Near 0 the probability is 1/2 + tanh(x / 2) / 2; far from it the other tail is exp(-x) / (1 + exp(-x)).
    """
    if x < _SMALL:
        return math.sqrt(2.0) * float(erfinv(math.tanh(x / 2)))
    return -float(ndtri_exp(-x - math.log1p(math.exp(-x))))


def _logit_of_normal(z: float) -> float:
    """log(Phi(z) / Phi(-z)) for z >= 0, to nearly full relative accuracy."""
    if z < 1:
        return 2 * math.atanh(float(erf(z / math.sqrt(2.0))))
    return float(log_ndtr(z) - log_ndtr(-z))
