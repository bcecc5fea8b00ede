"""Lower confidence bounds of a privacy loss from runs on two neighbours, without any knowledge of the mechanism.

An event is chosen on some of the runs. On the others its chance is bounded by Clopper and Pearson: p from below on one
dataset, q from above on the other. Two coins with these chances are post-processing of the mechanism, so that whatever
it promises holds for them: each function below turns (p, q) into the least parameter with which that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

Loss = Callable[[float, float], float]
Sample = NDArray[np.float64]

_CANDIDATES = 100  # Thresholds that are tried.
_DOUBT = 1e-3  # Chance of each event to be better on the runs that choose than it is: many are tried.
_ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 120)


def epsilon_loss(p: float, q: float) -> float:
    """Pure DP: p <= exp(epsilon) q."""
    return math.log(p / q) if p > q else 0.0


def mu_loss(p: float, q: float) -> float:
    """Gaussian DP: Phi^-1(p) <= Phi^-1(q) + mu (Dong, Roth and Su 2022, Definition 4)."""
    return float(ndtri(p) - ndtri(q)) if p > q else 0.0


def rho_loss(p: float, q: float) -> float:
    """zCDP: the Renyi divergence of the two coins is at most rho alpha at every order alpha > 1."""
    if p <= q:
        return 0.0
    with np.errstate(over="ignore"):
        heads = _ORDERS * math.log(p) - (_ORDERS - 1) * math.log(q)
        tails = _ORDERS * math.log1p(-p) - (_ORDERS - 1) * math.log1p(-q)
        divergences = np.logaddexp(heads, tails) / (_ORDERS - 1)
    return float((divergences / _ORDERS).max())


def approximate_loss(delta: float) -> Loss:
    """(epsilon, delta)-DP: p <= exp(epsilon) q + delta."""
    return lambda p, q: epsilon_loss(p - delta, q)


@dataclass(frozen=True)
class Event:
    """The statistic is at or above the threshold (``above``) or below it.

    swapped: The event is the likelier one on the first dataset, else on the neighbour.
    """

    threshold: float
    above: bool
    swapped: bool

    def chances(self, first: Sample, neighbour: Sample, error: float) -> tuple[float, float]:
        """(p, q): p is above the larger true chance or q below the smaller one with a chance of at most ``error``."""
        likely, rare = (first, neighbour) if self.swapped else (neighbour, first)
        p = least_chance(self._hits(likely), len(likely), error / 2)
        return p, largest_chance(self._hits(rare), len(rare), error / 2)

    def _hits(self, sample: Sample) -> int:
        above = int(np.count_nonzero(sample >= self.threshold))
        return above if self.above else len(sample) - above


def choose_event(loss: Loss, first: Sample, neighbour: Sample, runs: int, error: float) -> Event:
    """The event that promises the largest bound from ``runs`` later runs; where none does, the most telling one."""
    pooled = np.concatenate([first, neighbour])
    thresholds = np.unique(np.quantile(pooled, np.linspace(0, 1, _CANDIDATES), method="nearest"))
    above = [_hits_above(sample, thresholds) for sample in (first, neighbour)]
    events = [(Event(threshold, side, swapped), place) for place, threshold in enumerate(thresholds.tolist())
              for side in (True, False) for swapped in (True, False)]  # fmt: skip

    def promise(candidate: tuple[Event, int]) -> tuple[float, float]:
        event, place = candidate
        hits = [int(counts[place]) if event.above else len(first) - int(counts[place]) for counts in above]
        likely, rare = hits if event.swapped else hits[::-1]
        # Chances as they may well be, so that a lucky event of a few hits is not preferred.
        p, q = least_chance(likely, len(first), _DOUBT), largest_chance(rare, len(first), _DOUBT)
        p, q = least_chance(round(p * runs), runs, error / 2), largest_chance(round(q * runs), runs, error / 2)
        return loss(p, q), (likely - rare) / math.sqrt(likely + rare + 1)

    return max(events, key=promise)[0]


def least_chance(hits: int, runs: int, error: float) -> float:
    """Clopper-Pearson: a lower bound of a chance, wrong with a chance of at most ``error``."""
    return float(betaincinv(hits, runs - hits + 1, error)) if hits else 0.0


def largest_chance(hits: int, runs: int, error: float) -> float:
    """Clopper-Pearson: an upper bound of a chance, wrong with a chance of at most ``error``."""
    return 1 - least_chance(runs - hits, runs, error)


def _hits_above(sample: Sample, thresholds: Sample) -> NDArray[np.int64]:
    return len(sample) - np.searchsorted(np.sort(sample), thresholds, side="left")
