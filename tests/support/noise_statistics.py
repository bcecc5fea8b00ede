"""Eight tests of draws against a law of noise. Each gives the chance of draws at least this odd.

Normal approximations are used where 100,000 draws and more make them good to a factor below 2 at a chance of 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest, chi2

from tests.support.noise_distributions import Distribution, Reals

BINS = 64
ENERGY_STEP, LARGEST_ENERGY = 0.25, 12.0
TAIL_CHANCE = 1e-4
LEAST_EXPECTED = 100.0


@dataclass(frozen=True)
class Sample:
    """draws: int64 [n], in steps. law: What they should follow."""

    draws: NDArray[np.int64]
    law: Distribution

    @property
    def size(self) -> int:
        return self.draws.size

    @cached_property
    def ordered(self) -> Reals:
        return np.sort(self.draws).astype(np.float64)

    def counts(self, edges: Reals) -> tuple[Reals, Reals]:
        """Draws found and expected in (-inf, e0], (e0, e1], ..., (ek, inf)."""
        found = np.searchsorted(self.ordered, edges, side="right")
        found = np.diff(np.concatenate([[0], found, [self.size]]))
        chances = np.diff(np.concatenate([[0.0], self.law.cdf(edges), [1.0]]))
        return found.astype(np.float64), chances * self.size


def chi_square(sample: Sample) -> float:
    """Bins of nearly equal chance."""
    edges = np.unique(np.round(sample.law.about(np.arange(1, BINS) / BINS)))
    found, expected = sample.counts(edges)
    kept = expected >= LEAST_EXPECTED
    found = np.append(found[kept], found[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    found, expected = (found, expected) if expected[-1] > 0 else (found[:-1], expected[:-1])
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), len(found) - 1))


def kolmogorov_smirnov(sample: Sample) -> float:
    """Largest gap of the cumulative chances; a bound for every law (Massart 1990)."""
    values, counts = np.unique(sample.ordered, return_counts=True)
    below = np.cumsum(counts) / sample.size
    after = np.abs(below - sample.law.cdf(values))
    before = np.abs(below - counts / sample.size - sample.law.cdf(values - 1))
    gap = max(after.max(), before.max())
    return min(1.0, 2 * math.exp(-2 * sample.size * gap**2))


def mean(sample: Sample) -> float:
    variance, _ = sample.law.moments
    return _two_sided(float(sample.draws.mean()) / math.sqrt(variance / sample.size))


def variance(sample: Sample) -> float:
    second, fourth = sample.law.moments
    found = float(np.square(sample.draws.astype(np.float64)).mean())
    return _two_sided((found - second) / math.sqrt((fourth - second**2) / sample.size))


def sign(sample: Sample) -> float:
    """Positive against negative draws."""
    positive, negative = int((sample.draws > 0).sum()), int((sample.draws < 0).sum())
    return float(binomtest(positive, positive + negative).pvalue) if positive + negative else 1.0


def slope(sample: Sample) -> float:
    """log(found / expected) by size against the energy: a slope of 0, or the scale is wrong.

    The energy is linear in |z| for the Laplace and quadratic for a Gaussian. Bins of equal energy, weighted by what
    they expect, which is the inverse of the variance of the logarithm.
    """
    law = sample.law
    steps = np.arange(ENERGY_STEP, LARGEST_ENERGY, ENERGY_STEP)
    sizes = np.unique(np.floor(law.size_of(steps)))
    sizes = sizes[_beyond(law, sizes) * sample.size >= LEAST_EXPECTED]
    found = _folded(np.searchsorted(np.sort(np.abs(sample.draws)), sizes, side="right"), sample.size)
    expected = _folded((1 - _beyond(law, sizes)) * sample.size, sample.size)
    middles = np.concatenate([[sizes[0] / 2], (sizes[1:] + sizes[:-1] + 1) / 2, [sizes[-1] + 1]])
    kept = expected >= LEAST_EXPECTED
    ratio = np.log(np.maximum(found[kept], 0.5) / expected[kept])  # A bin may be empty only under a wrong law.
    energy, weight = law.energy(middles)[kept], expected[kept]
    centred = energy - np.average(energy, weights=weight)
    return _two_sided(float((weight * centred * ratio).sum() / math.sqrt((weight * centred**2).sum())))


def tail(sample: Sample) -> float:
    """Draws beyond the size that one in 10,000 passes."""
    reach = np.ceil(sample.law.about(np.array([1 - TAIL_CHANCE / 2])))
    beyond = int((np.abs(sample.draws) > reach[0]).sum())
    return float(binomtest(beyond, sample.size, float(_beyond(sample.law, reach)[0])).pvalue)


def lag(sample: Sample) -> float:
    """Correlation of a draw with the next."""
    draws = sample.draws.astype(np.float64)
    together = float((draws[1:] * draws[:-1]).sum()) / float((draws**2).sum())
    return _two_sided(together * math.sqrt(sample.size))


# In the order in which a wrong scale is noticed soonest.
STATISTICS: dict[str, Callable[[Sample], float]] = {
    "slope of log-ratios": slope,
    "variance": variance,
    "chi-square": chi_square,
    "Kolmogorov-Smirnov": kolmogorov_smirnov,
    "mean": mean,
    "sign": sign,
    "tail mass": tail,
    "lag-1 correlation": lag,
}


def power(law: Distribution, draws: int, wrong_by: float, level: float) -> float:
    """Power of the slope against a scale wrong by this fraction, to first order.

    The score of log scale is a multiple of the energy; with its standard deviation s over the law, the slope is off by
    wrong_by * s * draws^(1/2) standard deviations, and no other statistic can do better.
    """
    reach = float(np.ceil(law.size_of(np.array([40.0]))[0]))
    edges = np.unique(np.round(np.linspace(-reach, reach, 200_001)))
    chances = np.diff(law.cdf(edges))
    energy = law.energy((edges[1:] + edges[:-1] + 1) / 2)
    spread = math.sqrt(np.average(energy**2, weights=chances) - np.average(energy, weights=chances) ** 2)
    return float(ndtr(wrong_by * law.energy_per_scale * spread * math.sqrt(draws) + float(ndtri(level / 2))))


def _beyond(law: Distribution, sizes: Reals) -> Reals:
    """P(|Z| > size)."""
    return 2 * law.cdf(-sizes - 1)


def _folded(cumulative: Reals | NDArray[np.int64], total: int) -> Reals:
    return np.diff(np.concatenate([[0], cumulative, [total]])).astype(np.float64)


def _two_sided(z: float) -> float:
    return 2 * float(ndtr(-abs(z)))
