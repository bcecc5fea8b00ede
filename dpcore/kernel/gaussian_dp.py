"""The cost of bounded-range and pure mechanisms in Gaussian differential privacy. TRUSTED.

A mechanism is mu-GDP when distinguishing two neighbours by its output is at least as hard as distinguishing N(0, 1)
from N(mu, 1). Costs are amounts of mu^2. They add up under composition (Dong, Roth and Su 2022, Corollary 2), even when
a later cost is chosen from earlier outputs (``budget.Filter``).

Every floating-point result below has a relative error far below 1e-12. ``_SLACK`` moves each result to the safe side by
more than that.

Source: Dong, Roth and Su, "Gaussian Differential Privacy", JRSS B 84 (2022).
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.special import erf, erfinv, log_ndtr, ndtri_exp

_SLACK = 1e-9
_SMALL = 4.0  # Below, a probability is computed by its distance from 1/2; above, by its distance from 1.


def gdp_of_bounded_range(epsilon: Fraction) -> Fraction:
    """Smallest mu^2, rounded up, for which every mechanism of bounded range epsilon is mu-GDP.

    Claim. mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))). A mechanism has bounded range epsilon when for all neighbours,
    with output laws P and Q, there is a t in [0, epsilon] with t - epsilon <= log(P(o) / Q(o)) <= t for every output o.

    Proof.
    (1) Reduction to coins. P and Q are no easier to distinguish than two coins with probabilities p and q of heads
    whose log-ratios are t for heads and t - epsilon for tails, because a convex function of the ratio is largest at the
    ends of its interval. Dividing the two ratios shows that the odds of p are exp(epsilon) times the odds of q, for
    every t.
    (2) Comparison of trade-off curves. The curve of the coins consists of two line segments that meet at (1 - p, q).
    The curve of N(0, 1) and N(mu, 1) is convex and has the same end points. It therefore lies below the curve of the
    coins if and only if it lies below the point (1 - p, q), that is, if and only if Phi^-1(p) - mu <= Phi^-1(q).
    (3) The worst t. Let g(x) = Phi^-1(1 / (1 + exp(-x))). The smallest mu is the maximum over x of g(x) - g(x -
    epsilon), which is the integral of g' over an interval of length epsilon. g is odd. If g' decreases in |x|, the
    integral is largest over the interval centred at 0. There p = 1 / (1 + exp(-epsilon / 2)) and q = 1 - p, which gives
    the claim, with t = epsilon / 2.
    (4) g' decreases in |x|. The inverse of g is z -> logit(Phi(z)), so it suffices that this inverse is convex on z >=
    0, that is, that phi / (Phi (1 - Phi)) does not decrease there. Its logarithmic derivative times Phi (1 - Phi) is
    D = phi (2 Phi - 1) - z Phi (1 - Phi), with D(0) = D(inf) = 0. We show D >= 0. D' = 2 phi^2 - Phi (1 - Phi) is
    positive at 0 and tends to 0, and D'' = phi (2 Phi - 1 - 4 z phi). The bracket in D'' is 0 at 0, decreases up to
    z = 1/sqrt(2) and increases to 1 from there, so it is first negative and then positive. Hence D' first decreases and
    then increases to 0, so it is first positive and then negative. Hence D first increases and then decreases to 0, so
    D >= 0.
    """
    mu = 2 * _normal_quantile_of_logit(float(epsilon) / 2)
    return Fraction(mu * (1 + _SLACK)) ** 2


def gdp_of_pure(epsilon: Fraction) -> Fraction:
    """Smallest mu^2, rounded up, for which every epsilon-DP mechanism is mu-GDP.

    Claim. mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)). Proof: privacy losses lie in [-epsilon, epsilon], so the
    mechanism has bounded range 2 epsilon, with the worst t of ``gdp_of_bounded_range``, which is t = epsilon.

    Source: Dong, Roth and Su (2022), equation (5) and Fig. 3 for the trade-off curve of epsilon-DP.
    """
    return gdp_of_bounded_range(2 * epsilon)


def bounded_range_of_gdp(amount: Fraction) -> Fraction:
    """Largest bounded range, rounded down, that costs at most mu^2 = ``amount``.

    This inverts ``gdp_of_bounded_range``: epsilon = 2 logit(Phi(mu / 2)).
    """
    return Fraction(2 * _logit_of_normal(math.sqrt(float(amount)) / 2) * (1 - _SLACK))


def _normal_quantile_of_logit(x: float) -> float:
    """Phi^-1(1 / (1 + exp(-x))) for x >= 0, to nearly full relative accuracy.

    For small x the probability is 1/2 + tanh(x / 2) / 2. For large x the complementary probability, exp(-x) / (1 +
    exp(-x)), is used.
    """
    if x < _SMALL:
        return math.sqrt(2.0) * float(erfinv(math.tanh(x / 2)))
    return -float(ndtri_exp(-x - math.log1p(math.exp(-x))))


def _logit_of_normal(z: float) -> float:
    """log(Phi(z) / Phi(-z)) for z >= 0, to nearly full relative accuracy."""
    if z < 1:
        return 2 * math.atanh(float(erf(z / math.sqrt(2.0))))
    return float(log_ndtr(z) - log_ndtr(-z))
