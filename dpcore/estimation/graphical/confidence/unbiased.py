"""Unbiased estimates of a marginal from noisy marginals that contain it, with bounds that hold for adaptive runs.

A marginal r is *supported* if a measured clique r_j contains it. Summed down to r, measurement j gives M_r(D) plus
noise of variance v_j = sigma_j^2 n_(r_j) / n_r in each cell. The average with weights w_j = 1 / v_j has the least
variance, 1 / W with W the sum of the weights (McKenna 2022, Theorem 14). The theorem assumes that the measured cliques
are fixed. In an adaptive run later cliques depend on earlier noise, and conditional on the cliques the noise is not
N(0, 1 / W). What holds instead:

* w_j is fixed before the noise of measurement j is drawn. Let S_k be the weighted sum of the noise of the first k
  measurements that contain r. With Gaussian noise, S_k = B(W_k) for a Brownian motion B in n_r dimensions and stopping
  times W_k, whatever is decided between the measurements. By Doob's inequality for the submartingale exp(t |B|_1), the
  Chernoff bound for B(b) holds for all times up to b at once; for one cell, so does the reflection principle.
* The times are covered by the grid b_i = W_1 1.1^i, which is known before the first of these noises is drawn. Point 0
  gets 3/4 of the tail, point i > 0 gets 1 / (4 i (i + 1)), and the bound for W_k is that of the first point not below
  W_k. The bounds of all averages then hold at once. This costs a single measurement a quarter of the tail, and two
  equal measurements at most 5 % of a standard deviation.
* Measurements with Laplace noise are not averaged. The k-th measurement that contains r has fresh noise, and gets the
  part of point k - 1.
* A *batch* is a sequence of measurements whose cliques and scales were all fixed before the noise of the first was
  drawn: all measurements of a mechanism that does not adapt, or the first ones of a mechanism that does. Its
  least-squares estimate (``consistency``) has Gaussian noise with a known covariance, whatever was measured before and
  after. The n cells are correlated. The L1 norm of their noise has the mean n (2 / pi)^(1/2) times the deviation of a
  cell. As a Lipschitz function of Gaussians it exceeds the mean by x with probability at most exp(-x^2 / (2 n v)), with
  v the largest eigenvalue of the covariance.
* Rounding to the grid of the noise adds bounded symmetric errors (``noise_tails``), which are independent given what
  came before. Their signed sums are a sub-Gaussian supermartingale, and get a grid of their own.
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

GROWTH: Final = 1.1  # Ratio of neighbouring points of the grid of times.
_ROUNDING_PART: Final = 1 / 20  # Part of a tail for rounding errors, and the same again for a union over signs.


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """An unbiased estimate of a marginal: M_r(D) plus noise.

    values: The estimate in counts, float64 [cells].
    noise: Law of the noise of the measurements.
    deviation: Size of the continuous noise in a cell, in counts: its standard deviation, or the scale of each Laplace
        summand.
    summands: Number of measured cells that a cell of a single measurement sums; 0 for an average or a batch.
    rounding: Root of the sum of squares of the largest rounding errors in a cell, weighted as in the estimate.
    sum_of_rounding: Sum of those errors.
    share: Part of a tail that the bounds may use for the continuous noise.
    rounding_share: Part of a tail that they may use for the rounding.
    largest: For a batch, the root of the largest eigenvalue of the covariance; else 0.
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
        cells, noise_tail = self.values.size, tail * self.share * (1 - 2 * _ROUNDING_PART)
        if self.noise is Noise.LAPLACE:
            noise = self.deviation * l1_of_laplaces(cells, self.summands, noise_tail)
        elif self.largest:
            mean = cells * self.deviation * math.sqrt(2 / math.pi)
            noise = mean + self.largest * math.sqrt(-2 * cells * math.log(noise_tail))
        else:
            noise = self.deviation * l1_of_gaussians(cells, noise_tail)
        rounding = self.rounding * l1_of_sub_gaussians(cells, tail * self.rounding_share * _ROUNDING_PART)
        bound = noise + min(rounding, cells * self.sum_of_rounding)
        if self.noise is Noise.GAUSSIAN:  # The discrete law is sub-Gaussian with the scale of the continuous one.
            deviation = max(self.deviation, self.largest)
            bound = min(bound, deviation * l1_of_sub_gaussians(cells, tail * self.share * _ROUNDING_PART))
        return bound

    def half_width(self, tail: float) -> float:
        """h with P(|values - M_r(D)| >= h) <= tail for each single cell."""
        if self.summands == 1:
            return half_width(self.noise, self.deviation, 1 - tail * self.share)
        noise_tail = tail * self.share * (1 - _ROUNDING_PART)
        if self.noise is Noise.LAPLACE:
            noise = self.deviation * sum_of_laplaces(self.summands, noise_tail)
        else:
            noise = -self.deviation * float(ndtri(noise_tail / (2 if self.summands or self.largest else 4)))
        rounding = self.rounding * math.sqrt(-2 * math.log(tail * self.rounding_share * _ROUNDING_PART / 2))
        return noise + min(rounding, self.sum_of_rounding)

    def with_part(self, part: float) -> Estimate:
        """The same estimate, whose bounds may use only a part of the tail."""
        return replace(self, share=part * self.share, rounding_share=part * self.rounding_share)


@final
@dataclass(frozen=True, eq=False)
class _Batch:
    """Measurements whose cliques and scales were fixed together, with their least-squares estimates.

    measurements: At least one, with Gaussian noise.
    noise: Law of their noise.
    ratio: The largest rounding error of a measured value, in units of its scale.
    """

    measurements: Sequence[Measurement]
    noise: Noise
    ratio: float

    @cached_property
    def _least_squares(self) -> LeastSquares:
        """The least-squares fit of the batch."""
        queries = self.measurements[0].queries
        assert isinstance(queries, Marginals | Products)
        return LeastSquares(queries.domain, self.measurements)

    def holds(self, clique: Clique) -> bool:
        """Whether there is an estimate of the clique's marginal."""
        return self._least_squares.holds(clique)

    def of(self, clique: Clique, share: float) -> list[Estimate]:
        """The estimate of the clique's marginal, with a share of a tail; empty if the batch does not support it."""
        fit = self._least_squares
        if not fit.holds(clique):
            return []
        order = fit.domain.canonical(clique)
        values = fit.marginal(clique).transpose([order.index(name) for name in clique]).ravel()
        deviation, largest = math.sqrt(fit.variance(clique)), math.sqrt(fit.largest_variance(clique))
        rounding = self.ratio * largest
        return [Estimate(values, self.noise, deviation, 0, rounding, math.inf, share, share, largest)]


def _batch(measurements: Sequence[Measurement]) -> _Batch | None:
    """The batch of some measurements; None if there are none, for Laplace noise, and for queries without components."""
    is_gaussian = all(measurement.noise is not Noise.LAPLACE for measurement in measurements)
    if not measurements or not is_gaussian or not all(map(has_components, measurements)):
        return None
    noise = Noise.GAUSSIAN
    if any(measurement.noise is Noise.ROUNDED_GAUSSIAN for measurement in measurements):
        noise = Noise.ROUNDED_GAUSSIAN
    ratio = max(_step(measurement.noise) / measurement.scale for measurement in measurements)
    return _Batch(measurements, noise, ratio)


def _step(noise: Noise) -> float:
    """The largest error of rounding continuous noise to its grid, in counts."""
    return 2.0 ** -(GRID_BITS + 1) if noise is Noise.ROUNDED_GAUSSIAN else 1.0


@final
@dataclass(frozen=True, eq=False)
class _MeasuredMarginal:
    """One measured marginal.

    names: Its attributes as a set.
    clique: Its attributes in the order of the table's axes.
    table: Noisy counts.
    noise: Law of the noise.
    scale: Scale of the noise in each cell, in counts.
    """

    names: frozenset[str]
    clique: Clique
    table: NDArray[np.float64]
    noise: Noise
    scale: float

    @property
    def step(self) -> float:
        """The largest rounding error of a cell, in counts."""
        return _step(self.noise)

    def summed(self, clique: Clique) -> NDArray[np.float64]:
        """The sums over the attributes outside a clique, flat in C order of the clique."""
        summed_axes = tuple(axis for axis, name in enumerate(self.clique) if name not in clique)
        kept = [name for name in self.clique if name in clique]
        return np.asarray(self.table.sum(axis=summed_axes)).transpose([kept.index(name) for name in clique]).ravel()


@final
class Estimates:
    """Unbiased estimates of all marginals that measurements support.

    domain: Attributes of the model.
    measurements: Measurements in the order in which they were drawn. Only whole marginals are used, and residuals in
        the batch.
    batch: (first, one after the last) index of the measurements whose cliques and scales were fixed together before the
        noise of the first was drawn. Measurements with Laplace noise are no batch. If all measurements are the batch,
        only the batch is used. Otherwise earlier noise may have decided between two such ranges; the batch then gets a
        quarter of a tail, with which the estimates of both ranges would hold at once.

    Raises: ValueError for a measured marginal of another shape than the domain's.
    """

    def __init__(
        self, domain: Domain, measurements: Sequence[Measurement], batch: tuple[int, int] | None = None
    ) -> None:
        self._domain = domain
        self._measured = list(_measured_marginals(domain, measurements))
        self._batch = _batch(measurements[slice(*batch)]) if batch else None
        self._is_batch_alone = self._batch is not None and batch == (0, len(measurements))
        self._estimates: dict[Clique, list[Estimate]] = {}

    def supports(self, clique: Clique) -> bool:
        """Whether there is an unbiased estimate of the clique's marginal."""
        if self._batch is not None and self._batch.holds(clique):
            return True
        return any(frozenset(clique) <= marginal.names for marginal in self._measured)

    def of(self, clique: Clique) -> list[Estimate]:
        """The estimates of a clique's marginal; empty if it is not supported.

        They are the estimate of the batch, the first measurement alone, and the average of all measurements, or the
        sharpest single one with Laplace noise. Their bounds hold at once, so all of them may be used together.
        """
        clique = self._domain.canonical(clique)
        if clique not in self._estimates:
            self._estimates[clique] = self._estimate(clique)
        return self._estimates[clique]

    def _estimate(self, clique: Clique) -> list[Estimate]:
        """The estimates of ``of``, without its cache."""
        if self._batch is None:
            return self._from_whole_marginals(clique)
        of_batch = self._batch.of(clique, 1.0 if self._is_batch_alone else 0.25)
        if self._is_batch_alone:
            return of_batch
        return of_batch + [estimate.with_part(0.5) for estimate in self._from_whole_marginals(clique)]

    def _from_whole_marginals(self, clique: Clique) -> list[Estimate]:
        """The estimates from whole marginals, without the batch."""
        covering = [marginal for marginal in self._measured if frozenset(clique) <= marginal.names]
        if not covering:
            return []
        cells = self._domain.size(clique)
        if any(marginal.noise is Noise.LAPLACE for marginal in covering):
            best = min(range(len(covering)), key=lambda k: covering[k].scale ** 2 * covering[k].table.size)
            return [_single(covering[k], clique, cells, _share(k)) for k in sorted({0, best})]
        first = _single(covering[0], clique, cells, _share(0))
        return [first] if len(covering) == 1 else [first, _average(covering, clique, cells)]

    def sharpest(self, clique: Clique, tail: float) -> Estimate | None:
        """The estimate with the narrowest intervals of cells; the choice does not depend on noisy values."""
        return min(self.of(clique), key=lambda estimate: estimate.half_width(tail), default=None)


def _measured_marginals(domain: Domain, measurements: Sequence[Measurement]) -> Iterator[_MeasuredMarginal]:
    """The whole marginals among the measurements."""
    for measurement in measurements:
        queries = measurement.queries
        if not isinstance(queries, Marginals):
            continue
        for clique, table in zip(queries.cliques, queries.split(measurement.values), strict=True):
            if table.shape != domain.shape(clique):
                raise ValueError(f"measured marginal {clique} has shape {table.shape}; want {domain.shape(clique)}")
            values = np.asarray(table, dtype=np.float64)
            yield _MeasuredMarginal(frozenset(clique), clique, values, measurement.noise, measurement.scale)


def _single(marginal: _MeasuredMarginal, clique: Clique, cells: int, share: float) -> Estimate:
    """The estimate from one measured marginal."""
    summands = marginal.table.size // cells
    deviation = marginal.scale * (1.0 if marginal.noise is Noise.LAPLACE else math.sqrt(summands))
    rounding = marginal.step * math.sqrt(summands)
    values = marginal.summed(clique)
    return Estimate(values, marginal.noise, deviation, summands, rounding, marginal.step * summands, share, share)


def _average(covering: Sequence[_MeasuredMarginal], clique: Clique, cells: int) -> Estimate:
    """The average weighted by 1 / variance; its deviations are taken at the grid points (see the top of the file)."""
    summands = np.array([marginal.table.size // cells for marginal in covering], dtype=np.float64)
    scales = np.array([marginal.scale for marginal in covering])
    steps = np.array([marginal.step for marginal in covering])
    weights = 1 / (scales**2 * summands)
    weighted = (weight * marginal.summed(clique) for weight, marginal in zip(weights, covering, strict=True))
    values = sum(weighted) / weights.sum()
    time, share = _grid_point(np.cumsum(weights))
    squares, rounding_share = _grid_point(np.cumsum(weights**2 * steps**2 * summands))
    total, rounding = weights.sum(), float((weights * steps * summands).sum() / weights.sum())
    is_rounded = any(marginal.noise is Noise.ROUNDED_GAUSSIAN for marginal in covering)
    return Estimate(
        np.asarray(values),
        Noise.ROUNDED_GAUSSIAN if is_rounded else Noise.GAUSSIAN,
        math.sqrt(time) / total,
        0,
        math.sqrt(squares) / total,
        rounding,
        share,
        rounding_share,
    )


def _grid_point(sums: NDArray[np.float64]) -> tuple[float, float]:
    """The first b_i = sums[0] * GROWTH^i not below the last sum, and its part of the tail."""
    point = max(0, math.ceil(math.log(sums[-1] / sums[0]) / math.log(GROWTH)))
    return float(max(sums[-1], sums[0] * GROWTH**point)), _share(point)


def _share(point: int) -> float:
    """The part of a tail of each point of the grid; all parts sum to 1."""
    return 1 / (4 * point * (point + 1)) if point else 0.75
