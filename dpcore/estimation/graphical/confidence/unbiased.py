"""Unbiased estimates of a marginal from noisy marginals that contain it, with bounds that hold for adaptive runs.

Marginal r is *supported* where a measured clique r_j contains it. Summed down to r, measurement j gives M_r(D) plus
noise of variance v_j = sigma_j^2 n_(r_j) / n_r a cell, and the average with weights w_j = 1 / v_j has the least
variance, 1 / W with W the sum of the weights (McKenna 2022, Theorem 14). The theorem takes the measured cliques as
given. In an adaptive run later ones depend on earlier noise, and what is conditioned on them is not N(0, 1 / W). What
holds:

* w_j is settled before the noise of measurement j is drawn. So with Gaussian noise the weighted sums S_k of the noise
  of the first k measurements that contain r are a Brownian motion in n_r dimensions seen at the times W_k, whatever is
  decided between: S_k = B(W_k), W_k a stopping time. By Doob's inequality for the submartingale exp(t |B|_1), what
  Chernoff's bound gives for B(b) holds for all times up to b at once; for one cell, the reflection principle.
* The times are covered by the grid b_i = W_1 1.1^i, known before the first of those noises is drawn. Point i gets 3/4
  of the tail for i = 0, 1 / (4 i (i + 1)) after it, and the bound for W_k is that of the first point that is not
  below. All averages then hold at once: one measurement alone pays a quarter of the tail, two like ones 5 % of a
  standard deviation at most.
* Laplaces are not averaged. The k-th measurement that contains r has fresh noise, and gets the part of point k - 1.
* A *batch* is a run of measurements whose cliques and scales were all settled before the noise of the first was drawn:
  those of a mechanism that does not adapt, or the first ones of one that does. Its least-squares estimate
  (``consistency``) has Gaussian noise of a known covariance, whatever was measured before and after. Cells are then
  correlated: the L1 norm of the noise has the mean n (2 / pi)^(1/2) times a cell's deviation, and as a Lipschitz
  function of the Gaussians it is above it by x with the chance exp(-x^2 / (2 n v)) at most, v the largest variance of a
  combination of cells with coefficients of squared sum 1.
* What rounding to the grid of the noise adds is a sum of bounded symmetric errors (``noise_tails``), independent given
  what came before: its signed sums are a sub-Gaussian supermartingale, on a grid of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.confidence.noise_tails import (
    l1_of_gaussians,
    l1_of_laplaces,
    l1_of_sub_gaussians,
    sum_of_laplaces,
)
from dpcore.estimation.graphical.fitting.consistency import LeastSquares, has_components
from dpcore.measurement import GRID_BITS, Measurement, Noise
from dpcore.queries import Marginals, Products
from dpcore.uncertainty import half_width

GROWTH: Final = 1.1
_PART: Final = 1 / 20  # Of a tail, for what rounding adds, and again for a union over signs.


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """M_r(D) plus noise, one value a cell, in counts.

    values: float64 [cells].
    noise: Law of the measurements.
    deviation: Of the continuous noise in a cell: its standard deviation, or the scale of each Laplace summand.
    summands: Measured cells in a cell, of a single measurement; 0 for an average or a batch.
    rounding: Root of the sum of squares of the largest rounding errors in a cell, weights and all.
    sum_of_rounding: Their sum.
    share, rounding_share: Parts of a tail that its bounds may use.
    largest: Of a batch, the largest standard deviation of a combination of cells of squared sum 1; else 0.
    """

    values: NDArray[np.float64]
    noise: Noise
    deviation: float
    summands: int
    rounding: float
    sum_of_rounding: float
    share: float
    rounding_share: float
    largest: float = 0.0

    def l1_of_noise(self, tail: float) -> float:
        """x with P(|values - M_r(D)|_1 >= x) <= tail."""
        if self.values.size == 1:
            return self.half_width(tail)
        cells, own = self.values.size, tail * self.share * (1 - 2 * _PART)
        if self.noise is Noise.LAPLACE:
            noise = self.deviation * l1_of_laplaces(cells, self.summands, own)
        elif self.largest:
            mean = cells * self.deviation * math.sqrt(2 / math.pi)
            noise = mean + self.largest * math.sqrt(-2 * cells * math.log(own))
        else:
            noise = self.deviation * l1_of_gaussians(cells, own)
        added = self.rounding * l1_of_sub_gaussians(cells, tail * self.rounding_share * _PART)
        found = noise + min(added, cells * self.sum_of_rounding)
        if self.noise is Noise.GAUSSIAN:  # Sub-Gaussian with the scale of the continuous one.
            deviation = max(self.deviation, self.largest)
            found = min(found, deviation * l1_of_sub_gaussians(cells, tail * self.share * _PART))
        return found

    def half_width(self, tail: float) -> float:
        """h with P(|values - M_r(D)| >= h) <= tail for each cell alone."""
        if self.summands == 1:
            return half_width(self.noise, self.deviation, 1 - tail * self.share)
        own = tail * self.share * (1 - _PART)
        if self.noise is Noise.LAPLACE:
            noise = self.deviation * sum_of_laplaces(self.summands, own)
        else:
            noise = -self.deviation * float(ndtri(own / (2 if self.summands or self.largest else 4)))
        added = self.rounding * math.sqrt(-2 * math.log(tail * self.rounding_share * _PART / 2))
        return noise + min(added, self.sum_of_rounding)

    def with_part(self, part: float) -> Estimate:
        """The same for a part of the tail."""
        return replace(self, share=part * self.share, rounding_share=part * self.rounding_share)


@final
@dataclass(frozen=True, eq=False)
class _Batch:
    """Measurements with their least-squares estimate. ratio: The largest rounding error, in units of the scale."""

    measurements: Sequence[Measurement]
    noise: Noise
    ratio: float

    @cached_property
    def _least_squares(self) -> LeastSquares:
        queries = self.measurements[0].queries
        assert isinstance(queries, Marginals | Products)
        return LeastSquares(queries.domain, self.measurements)

    def holds(self, clique: Clique) -> bool:
        return self._least_squares.holds(clique)

    def of(self, clique: Clique, share: float) -> list[Estimate]:
        found = self._least_squares
        if not found.holds(clique):
            return []
        order = found.domain.canonical(clique)
        values = found.marginal(clique).transpose([order.index(name) for name in clique]).ravel()
        deviation, largest = math.sqrt(found.variance(clique)), math.sqrt(found.largest_variance(clique))
        rounding = self.ratio * largest
        return [Estimate(values, self.noise, deviation, 0, rounding, math.inf, share, share, largest)]


def _batch(measurements: Sequence[Measurement]) -> _Batch | None:
    """None where there is nothing to gain, a law for which there is no proof, or queries without components."""
    gaussian = all(one.noise is not Noise.LAPLACE for one in measurements)
    if not measurements or not gaussian or not all(map(has_components, measurements)):
        return None
    noise = Noise.GAUSSIAN
    if any(one.noise is Noise.ROUNDED_GAUSSIAN for one in measurements):
        noise = Noise.ROUNDED_GAUSSIAN
    return _Batch(measurements, noise, max(_step(one.noise) / one.scale for one in measurements))


def _step(noise: Noise) -> float:
    """The largest error of rounding continuous noise to its grid."""
    return 2.0 ** -(GRID_BITS + 1) if noise is Noise.ROUNDED_GAUSSIAN else 1.0


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """One measured marginal."""

    names: frozenset[str]
    clique: Clique
    table: NDArray[np.float64]
    noise: Noise
    scale: float

    @property
    def step(self) -> float:
        return _step(self.noise)

    def summed(self, clique: Clique) -> NDArray[np.float64]:
        """The sums over other attributes, in C order of ``clique``."""
        others = tuple(axis for axis, name in enumerate(self.clique) if name not in clique)
        kept = [name for name in self.clique if name in clique]
        return np.asarray(self.table.sum(axis=others)).transpose([kept.index(name) for name in clique]).ravel()


@final
class Estimates:
    """Unbiased estimates of all marginals that measurements support.

    measurements: In the order in which they were drawn; those of anything but whole marginals are left out, but for
        residuals in the batch.
    batch: Places of those whose cliques and scales were settled together, before the noise of the first was drawn:
        (first, after the last). Where they are all measurements nothing else is used; Laplaces are not batched. Else
        earlier noise may have decided which of two runs of measurements is the batch: it gets a quarter of a tail, so
        that both would hold at once.
    """

    def __init__(
        self, domain: Domain, measurements: Sequence[Measurement], batch: tuple[int, int] | None = None
    ) -> None:
        self._domain = domain
        self._parts = list(_parts(domain, measurements))
        self._batch = _batch(measurements[slice(*batch)]) if batch else None
        self._batch_alone = self._batch is not None and batch == (0, len(measurements))
        self._found: dict[Clique, list[Estimate]] = {}

    def supports(self, clique: Clique) -> bool:
        if self._batch is not None and self._batch.holds(clique):
            return True
        return any(frozenset(clique) <= part.names for part in self._parts)

    def of(self, clique: Clique) -> list[Estimate]:
        """That of the batch, the first alone and the average of all, or the sharpest Laplace; none where unsupported.

        All may be used together: their bounds hold at once.
        """
        clique = self._domain.canonical(clique)
        if clique not in self._found:
            self._found[clique] = self._made(clique)
        return self._found[clique]

    def _made(self, clique: Clique) -> list[Estimate]:
        if self._batch is None:
            return self._of_each(clique)
        found = self._batch.of(clique, 1.0 if self._batch_alone else 0.25)
        return found if self._batch_alone else found + [one.with_part(0.5) for one in self._of_each(clique)]

    def _of_each(self, clique: Clique) -> list[Estimate]:
        covering = [part for part in self._parts if frozenset(clique) <= part.names]
        if not covering:
            return []
        cells = self._domain.size(clique)
        if any(part.noise is Noise.LAPLACE for part in covering):
            best = min(range(len(covering)), key=lambda k: covering[k].scale ** 2 * covering[k].table.size)
            return [_single(covering[k], clique, cells, _share(k)) for k in sorted({0, best})]
        first = _single(covering[0], clique, cells, _share(0))
        return [first] if len(covering) == 1 else [first, _average(covering, clique, cells)]

    def sharpest(self, clique: Clique, tail: float) -> Estimate | None:
        """The estimate of the narrowest cells; which one that is does not depend on noisy values."""
        return min(self.of(clique), key=lambda estimate: estimate.half_width(tail), default=None)


def _parts(domain: Domain, measurements: Sequence[Measurement]) -> Iterator[_Part]:
    for measurement in measurements:
        queries = measurement.queries
        if not isinstance(queries, Marginals):
            continue
        for clique, table in zip(queries.cliques, queries.split(measurement.values), strict=True):
            if table.shape != domain.shape(clique):
                raise ValueError(f"measured marginal {clique} has shape {table.shape}; want {domain.shape(clique)}")
            values = np.asarray(table, dtype=np.float64)
            yield _Part(frozenset(clique), clique, values, measurement.noise, measurement.scale)


def _single(part: _Part, clique: Clique, cells: int, share: float) -> Estimate:
    summands = part.table.size // cells
    deviation = part.scale * (1.0 if part.noise is Noise.LAPLACE else math.sqrt(summands))
    rounding = part.step * math.sqrt(summands)
    values = part.summed(clique)
    return Estimate(values, part.noise, deviation, summands, rounding, part.step * summands, share, share)


def _average(covering: Sequence[_Part], clique: Clique, cells: int) -> Estimate:
    """Weighted by 1 / variance; deviations are those of the grid points of the time and of the sum of roundings."""
    summands = np.array([part.table.size // cells for part in covering], dtype=np.float64)
    scales, steps = (np.array([getattr(part, name) for part in covering]) for name in ("scale", "step"))
    weights = 1 / (scales**2 * summands)
    values = sum(weight * part.summed(clique) for weight, part in zip(weights, covering, strict=True)) / weights.sum()
    time, share = _grid_point(np.cumsum(weights))
    squares, rounding_share = _grid_point(np.cumsum(weights**2 * steps**2 * summands))
    whole, added = weights.sum(), float((weights * steps * summands).sum() / weights.sum())
    noise = next((part.noise for part in covering if part.noise is Noise.ROUNDED_GAUSSIAN), Noise.GAUSSIAN)
    return Estimate(
        np.asarray(values), noise, math.sqrt(time) / whole, 0, math.sqrt(squares) / whole, added, share, rounding_share
    )


def _grid_point(sums: NDArray[np.float64]) -> tuple[float, float]:
    """The first b_i = sums[0] * GROWTH^i not below the last sum, and its part of the tail."""
    point = max(0, math.ceil(math.log(sums[-1] / sums[0]) / math.log(GROWTH)))
    return float(max(sums[-1], sums[0] * GROWTH**point)), _share(point)


def _share(point: int) -> float:
    """Parts of a tail, of sum 1."""
    return 1 / (4 * point * (point + 1)) if point else 0.75
