"""Tail bounds for noise: for the L1 norm of noisy cells, for their signed sums, and for one sum.

Tails are bounded by Chernoff's bound, P(X >= x) <= E exp(t X) exp(-t x), minimised over t numerically. Every t gives a
valid bound, so an inexact minimum makes the bound less sharp but not invalid.

The absolute value of a Gaussian scale mixture. Let y = v^(1/2) g with g standard normal and v >= 0 independent of it:
a Gaussian, a Laplace (v exponential), and every sum of independent ones. With K(t) = ln E exp(t y),

    E exp(t |y|) = E[ exp(t^2 v / 2) (1 + erf(t (v / 2)^(1/2))) ] <= exp(K(t)) (1 + erf((t K'(t) / 2)^(1/2))).

Proof: given v, the left side is the moment generating function of a folded normal. Under the law with density
exp(t^2 v / 2 - K(t)), t^2 v / 2 has the mean t K'(t) / 2, and erf(x^(1/2)) is concave. For a Gaussian it is an
equality. McKenna (2022), Lemma 1, has 2 in place of 1 + erf: a mean of 1.18 standard deviations per cell instead of
0.80.

From discrete to continuous noise. A discrete Laplace or Gaussian z can be coupled with a continuous one, g, of the same
scale, such that |z - g| <= 1 and z - g is symmetric, by taking equal quantiles. This needs, for integers m >= 1,

    P(g >= m) <= P(z >= m) <= P(g >= m - 1).

* Laplace, with r = exp(-1/b): r^m / 2 <= r^m / (1 + r) <= r^(m-1) / 2.
* Gaussian, with f(x) = exp(-x^2 / 2 sigma^2), Z = sum f(k) and c = sigma (2 pi)^(1/2), where c <= Z by Poisson
  summation. The right inequality: sum_{k >= m} f(k) is at most the integral of f from m - 1. The left one for
  sigma >= 0.7: Z = c (1 + d) with d < 3 exp(-2 pi^2 sigma^2), while the sum exceeds the integral from m by the fraction
  u - 1 + exp(-u) of it or more, with u = m / sigma^2, which is more than d. For sigma < 0.7, Z < 2 and
  P(g >= m) <= f(m) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

_MIN_T: Final = 1e-7  # Smallest argument of the moment generating function that the search tries.
_MAX_T: Final = 1e4  # The largest one, where the moments exist everywhere.
_LOG_TAIL: Final = 8.0  # ``root_of_squares`` is sharpest for the tail exp(-8).


@lru_cache(maxsize=1 << 14)
def l1_of_gaussians(cells: int, tail: float) -> float:
    """x with P(|g_1| + ... + |g_cells| >= x) <= tail for independent standard normals."""
    return _chernoff(lambda t: t * t / 2 + math.log1p(math.erf(t / math.sqrt(2))), cells, tail, _MAX_T)


@lru_cache(maxsize=1 << 14)
def l1_of_laplaces(cells: int, summands: int, tail: float) -> float:
    """x with P(|y_1| + ... + |y_cells| >= x) <= tail for independent y, each a sum of continuous Laplaces of scale 1.

    cells: Number of sums.
    summands: Number of Laplaces in each sum.

    The absolute value of one Laplace is exponential: E exp(t |y|) = 1 / (1 - t).
    """

    def log_moment(t: float) -> float:
        if summands == 1:
            return -math.log1p(-t)
        mean = summands * t * t / (1 - t * t)
        return -summands * math.log1p(-t * t) + math.log1p(math.erf(math.sqrt(mean)))

    return _chernoff(log_moment, cells, tail, 1.0)


def l1_of_sub_gaussians(cells: int, tail: float) -> float:
    """x with P(|y_1| + ... + |y_cells| >= x) <= tail where E exp(t s y) <= exp(cells t^2 / 2) for all signs s.

    It is a union bound over the 2^cells vectors of signs.
    """
    return math.sqrt(2 * cells * (cells * math.log(2) - math.log(tail)))


def signed_gaussians(cells: int, tail: float) -> float:
    """x with P(s_1 y_1 + ... >= x) <= tail for given signs s and y 1-sub-Gaussian, independent."""
    return math.sqrt(-2 * cells * math.log(tail))


@lru_cache(maxsize=1 << 14)
def signed_laplaces(cells: int, scale: float, tail: float) -> float:
    """x with P(s_1 z_1 + ... >= x) <= tail for given signs s and discrete Laplaces z of this scale, in counts.

    With r = exp(-1 / scale), E exp(t z) = (1 - r)^2 / ((1 - r e^t) (1 - r e^-t)).
    """

    def log_moment(t: float) -> float:
        below, above = -math.expm1((t - 1) / scale), -math.expm1(-(t + 1) / scale)
        return 2 * math.log(-math.expm1(-1 / scale)) - math.log(below) - math.log(above)

    return scale * _chernoff(log_moment, cells, tail, 1.0)


def root_of_squares(cells: int, squared_length: float, scale: float, tail: float, discrete: bool) -> float:
    """An upper bound on |d|_2 that holds with probability 1 - tail, from the squared length of d + z.

    cells: Number of entries of d.
    squared_length: |d + z|_2^2 as observed.
    scale: Standard deviation of the Gaussian noise z; the parameter of the discrete Gaussian where ``discrete``.
    tail: Probability that the bound fails.
    discrete: Whether z is a discrete Gaussian.

    E exp(-t (d + z)^2) = (1 + 2 t sigma^2)^(-1/2) exp(-t d^2 / (1 + 2 t sigma^2)) for a Gaussian; for the discrete one
    at most that times 1 + 2 sum_{k >= 1} exp(-2 pi^2 s^2 k^2) with s^2 = sigma^2 / (1 + 2 t sigma^2): completing the
    square leaves a sum of a Gaussian function over shifted whole numbers, which is largest unshifted. By Markov's
    inequality, sum_j -ln E exp(-t (d_j + z_j)^2) <= t |d + z|_2^2 + ln(1 / tail) up to probability ``tail``. t is fixed
    by cells and scale, so that the bound is about the smallest for d = 0 and a tail of exp(-8).
    """
    limit = -math.log(tail)
    twice = 2 * math.sqrt(_LOG_TAIL / cells)  # 2 t sigma^2
    wave = math.exp(-2 * (math.pi * scale) ** 2 / (1 + twice)) if discrete else 0.0
    theta = math.log1p(2 * wave / (1 - wave))
    rest = limit + cells * (theta - math.log1p(twice) / 2)
    return math.sqrt(max(0.0, (1 + twice) * (squared_length + 2 * scale**2 / twice * rest)))


@lru_cache(maxsize=1 << 14)
def sum_of_laplaces(summands: int, tail: float) -> float:
    """x with P(|sum| >= x) <= tail for a sum of continuous Laplaces of scale 1."""
    return _chernoff(lambda t: math.log(2) / summands - math.log1p(-t * t), summands, tail, 1.0)


def _chernoff(log_moment: Callable[[float], float], cells: int, tail: float, max_t: float) -> float:
    """min over 0 < t < max_t of (cells log_moment(t) + ln(1 / tail)) / t."""
    from scipy.optimize import minimize_scalar  # Only where it is called: most plans need none.

    limit = -math.log(tail)

    def bound(logarithm: float) -> float:
        t = math.exp(logarithm)
        return (cells * log_moment(t) + limit) / t

    ends = (math.log(_MIN_T), math.log(max_t) - 1e-9)
    return float(minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-4}).fun)
