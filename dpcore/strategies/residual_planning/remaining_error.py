"""Residual planning in several calls: what to measure next, given how large each residual may still be.

After a first call, empirical Bayes knows roughly how large each residual is. A residual that is surely near 0 needs no
further budget, because its estimate is near 0 as well; one far above its noise does. The budget of a call goes where it
lowers the expected error of the estimates the most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.strategies.residual_planning.lattice import Lattice, Vector

Matrix = NDArray[np.float64]
_POINTS: Final = 24  # Shares of a residual at which the slope of its variance is computed.
_SMALLEST: Final = 1e-7  # The smallest added share among them, as a part of the call's share.
_STEPS: Final = 8  # Majorisation-minimisation.
_HALVINGS: Final = 40  # Of the interval of the multiplier, on a logarithmic scale.
_TINY: Final = 1e-300


@final
@dataclass(frozen=True, eq=False)
class PossibleSizes:
    """How large the cells of some residuals may be: for each residual, a distribution of the variance of its cells.

    variances: float64 [levels], possible variances in counts^2, ascending, the first 0.
    chances: By the attributes of a residual, float64 [levels], with sum 1. A residual that is missing may have any
        size.
    """

    variances: Vector
    chances: Mapping[Clique, Vector]


def next_shares(
    domain: Domain,
    weights: Mapping[Clique, float],
    sizes: PossibleSizes,
    spent: Mapping[Clique, float],
    share: float,
    unit_variance: float,
    *,
    replaced: bool = False,
) -> dict[Clique, float]:
    """The shares of the whole budget that the next call should give to each residual, with sum ``share``.

    Residuals that would get less than 1e-7 of it are left out.

    domain, weights, replaced: As for ``least_absolute_error``: the loss is the sum over marginals and their cells of
        weight * standard deviation.
    sizes: What is known of the residuals.
    spent: Shares of the whole budget that earlier calls gave to each residual, positive.
    share: Share of the next call, positive.
    unit_variance: The noise variance that the whole budget buys for a query of sensitivity 1, in counts^2.

    A residual with the prior variance t in each cell and the noise variance v has the posterior variance t v / (t + v);
    v falls with the shares that it got. The loss is convex in the shares. As in ``least_absolute_error``, each step
    minimises a majorant that is linear in the variances, here by a common multiplier: a residual gets budget until the
    slope of its variance has come down to it.

    Source: this project. With unknown sizes it becomes ``least_absolute_error`` as what was spent goes to 0.
    """
    lattice = Lattice(domain, weights, replaced)
    table_weights = lattice.sums_of_weights(np.array(list(weights.values()), dtype=np.float64), np.add)
    table_weights = table_weights * lattice.workload_sizes
    parts, measured = lattice.parts, lattice.costs > 0
    names = [part for part, kept in zip(parts, measured, strict=True) if kept]
    variances = _Variances.of(names, lattice, sizes, unit_variance)
    before = np.array([spent[part] for part in names])
    points = before[:, None] + share * np.concatenate([[0.0], np.geomspace(_SMALLEST, 1.0, _POINTS - 1)])
    slopes = np.log(variances.slopes(points) + _TINY)
    after = before * (1 + share / before.sum())
    of_parts = np.zeros(len(parts))
    for _ in range(_STEPS):
        of_parts[measured] = variances.at(after)
        deviations = np.sqrt(lattice.variances(of_parts))
        importance = lattice.importance(table_weights / np.maximum(deviations, math.sqrt(_TINY)))[measured]
        after = _filled(points, slopes + np.log(importance + _TINY)[:, None], before, share)
    added = np.maximum(after - before, 0.0)
    added *= share / added.sum()
    return {part: float(one) for part, one in zip(names, added, strict=True) if one > _SMALLEST * share}


@final
@dataclass(frozen=True, eq=False)
class _Variances:
    """The expected variance of a cell of each residual, as a function of the share of the budget that it got.

    levels, chances: Possible prior variances, float64 [levels], and their chances, float64 [residuals, levels]. The
        last level is infinite: any size.
    energies: float64 [residuals], prod (1 - 1 / n): the variance of a cell of noise N(0, P).
    noise: float64 [residuals], the noise variance that the whole budget would buy.
    """

    levels: Vector
    chances: Matrix
    energies: Vector
    noise: Vector

    @classmethod
    def of(cls, parts: list[Clique], lattice: Lattice, sizes: PossibleSizes, unit_variance: float) -> _Variances:
        measured = lattice.costs > 0
        levels = np.append(sizes.variances, np.inf)
        chances = np.zeros((len(parts), len(levels)))
        for row, part in zip(chances, parts, strict=True):
            known = sizes.chances.get(part)
            if known is None:
                row[-1] = 1.0
            else:
                row[:-1] = known
        return cls(levels, chances, lattice.energies[measured], unit_variance * lattice.costs[measured])

    def at(self, shares: Vector) -> Vector:
        """float64 [residuals], at these shares."""
        total = self.chances[:, -1] * self.noise / shares
        for level, chances in zip(self.levels[1:-1].tolist(), self.chances.T[1:-1], strict=True):
            total = total + chances * (level * self.noise / (level * shares + self.noise))
        return self.energies * total

    def slopes(self, points: Matrix) -> Matrix:
        """How fast the variance falls with the share, float64 [residuals, points], not negative."""
        noise = self.noise[:, None]
        total = self.chances[:, -1:] * noise / points**2
        for level, chances in zip(self.levels[1:-1].tolist(), self.chances.T[1:-1], strict=True):
            total += chances[:, None] * noise * (level / (level * points + noise)) ** 2
        return np.asarray(self.energies[:, None] * total)


def _filled(points: Matrix, slopes: Matrix, before: Vector, share: float) -> Vector:
    """The shares at which all slopes have come down to one multiplier, or are below it without any budget.

    points, slopes: float64 [residuals, points], rising shares and the logs of falling slopes.
    """
    low, high = float(slopes.min()), float(slopes.max())
    after = before
    for _ in range(_HALVINGS):
        multiplier = (low + high) / 2
        after = _shares_at(points, slopes, multiplier)
        if float((after - before).sum()) > share:
            low = multiplier
        else:
            high = multiplier
    return after


def _shares_at(points: Matrix, slopes: Matrix, multiplier: float) -> Vector:
    """For each residual, the share at which its slope is the multiplier, by interpolation between two points."""
    above = (slopes > multiplier).sum(axis=1)
    rows, right = np.arange(len(points)), np.clip(above, 1, points.shape[1] - 1)
    left = right - 1
    fall = slopes[rows, left] - slopes[rows, right]
    part = np.clip((slopes[rows, left] - multiplier) / np.maximum(fall, _TINY), 0.0, 1.0)
    between = points[rows, left] + part * (points[rows, right] - points[rows, left])
    return np.asarray(np.where(above == 0, points[:, 0], between))
