"""BMaxC and PMostC: which cuboids of a data cube to measure, so that all others are sums of their cells.

With s cuboids measured, each of their cells has Laplace noise of scale s / epsilon. A cuboid that is summed from a
measured cuboid of k times as many cells has the noise of k of them in each cell: variance 2 s^2 k / epsilon^2.

Source: Ding, Winslett, Han and Li (2011). BMaxC bounds the largest variance, PMostC publishes as many cuboids as it can
within a threshold; both are greedy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Choice:
    """measured: Indices of ``Cube.cliques``. summed: For each cuboid how many measured cells one of its cells sums."""

    measured: tuple[int, ...]
    summed: NDArray[np.float64]

    def mean_errors(self, epsilon: float) -> NDArray[np.float64]:
        """Expected absolute error of a cell of each cuboid."""
        return len(self.measured) / epsilon * np.array([mean_absolute_sum(round(k)) for k in self.summed.tolist()])


@dataclass(frozen=True, eq=False)
class Cube:
    """All cuboids of some attributes.

    cliques: Sets of positions of attributes.
    ratio: float64 [cuboids, cuboids], cells of the first over cells of the second where it holds that one, else inf.
    """

    cliques: tuple[frozenset[int], ...]
    ratio: NDArray[np.float64]

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> Cube:
        places = range(len(sizes))
        cliques = tuple(frozenset(found) for k in range(len(sizes) + 1) for found in combinations(places, k))
        cells = np.array([math.prod(sizes[place] for place in clique) for clique in cliques], dtype=np.float64)
        holds = np.array([[other <= clique for other in cliques] for clique in cliques])
        return cls(cliques, np.where(holds, cells[:, None] / cells[None, :], np.inf))

    def choice(self, measured: list[int]) -> Choice:
        return Choice(tuple(measured), self.ratio[measured].min(axis=0))

    def greedy(self, most: float, limit: int) -> list[int]:
        """At most ``limit`` cuboids, each reaching most of those not reached yet by sums of at most ``most`` cells."""
        reach = self.ratio <= most
        left, chosen = np.ones(len(self.cliques), dtype=np.bool_), list[int]()
        while left.any() and len(chosen) < limit:
            chosen.append(int((reach & left).sum(axis=1).argmax()))
            left &= ~reach[chosen[-1]]
        return chosen


def b_max_c(cube: Cube) -> Choice:
    """Least largest variance that the greedy cover finds over all bounds on the sums."""
    choices = [cube.choice(cube.greedy(most, len(cube.cliques))) for most in _bounds(cube)]
    return min(choices, key=lambda choice: len(choice.measured) ** 2 * choice.summed.max())


def p_most_c(cube: Cube) -> Choice:
    """Of all thresholds and numbers of cuboids the choice of least average error, where the paper fixes a threshold.

    The largest cuboid is measured as well where the greedy choice leaves a cuboid out.
    """
    found = []
    for most in _bounds(cube):
        cover = cube.greedy(most, len(cube.cliques))
        for limit in range(1, len(cover) + 1):
            choice = cube.choice(cover[:limit])
            if not np.isfinite(choice.summed).all():
                choice = cube.choice([*cover[:limit], len(cube.cliques) - 1])
            found.append(choice)
    return min(found, key=lambda choice: float(len(choice.measured) * np.sqrt(choice.summed).mean()))


def _bounds(cube: Cube) -> list[float]:
    return np.unique(cube.ratio[np.isfinite(cube.ratio)]).tolist()


def mean_absolute_sum(k: int) -> float:
    """Expected absolute value of a sum of k unit Laplaces, a difference of two Gammas: 2 k (2k choose k) / 4^k."""
    log_binomial = math.lgamma(2 * k + 1) - 2 * math.lgamma(k + 1)
    return 2 * k * math.exp(log_binomial - k * math.log(4))
