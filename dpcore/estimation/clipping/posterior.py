"""Posterior summaries of exact answers: medians, means and quantiles, given noisy clipped answers and a prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.clipping.loss_curve import LossCurve
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.estimation.clipping.prior import Prior, evaluation_points
from dpcore.estimation.clipping.support import Support, position

_LOGISTIC = 1.7  # A logistic function of 1.7 z is within 0.01 of the normal distribution function of z.


@dataclass(frozen=True, eq=False)
class Caps:
    """Noisy upper bounds of exact answers: no conjunction has more than the rarest of its columns.

    values: float64 [m], the bounds in counts.
    stddev: Standard deviation of their noise, positive; one such deviation is also added to each bound.
    """

    values: NDArray[np.float64]
    stddev: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Summaries of the posterior distribution of m exact answers, in counts.

    median: float64 [m]; 0 where "0" has at least half of the probability.
    mean: float64 [m].
    lower: float64 [m], the quantile of the tail probability.
    upper: float64 [m], the quantile of 1 minus the tail probability.
    """

    median: NDArray[np.float64]
    mean: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def posterior(
    values: NDArray[np.float64],
    noise: NoiseLaw,
    prior: Prior,
    predictions: NDArray[np.float64],
    curve: LossCurve,
    caps: Caps | None,
    tail: float,
) -> Posterior:
    """The posterior of the exact answers of m measured queries.

    values: float64 [m], clipped answers with independent noise, in counts.
    noise: Its law.
    prior: The prior by prediction.
    predictions: float64 [m], of the exact answers.
    curve: Expected clipped answers by exact answers, at the points at which the prior is tabulated.
    caps: Noisy upper bounds, or None.
    tail: Probability below ``lower``, and above ``upper``.
    """
    bounds = Caps(np.full(values.size, np.inf), 1.0) if caps is None else caps
    summaries = np.zeros((values.size, 4))
    _summarise(
        values,
        prior.bins(predictions),
        prior.densities,
        curve.counts,
        curve.clipped,
        bounds.values,
        _LOGISTIC / bounds.stddev,
        noise.scale,
        noise.reach,
        noise.laplace,
        np.array([tail, 0.5, 1.0 - tail]),
        summaries,
    )
    return Posterior(summaries[:, 1], summaries[:, 3], summaries[:, 0], summaries[:, 2])


def prior_summary(prior: Prior, predictions: NDArray[np.float64], support: Support, tail: float) -> Posterior:
    """The same summaries for queries that were not measured: those of the prior, at points of the support."""
    if not predictions.size:
        return Posterior(*(np.empty(0) for _ in range(4)))
    prior, points = prior.extended(predictions, support), support.points
    spacing = np.gradient(points)
    spacing[: np.searchsorted(points, 64.0) + 1] = 1.0
    mass = prior.densities * spacing
    mass /= mass.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(mass, axis=1)
    low, middle, high = (points[(cumulated < level).sum(axis=1)] for level in (tail, 0.5, 1 - tail - 1e-12))
    bins = prior.bins(predictions)
    return Posterior(middle[bins], (mass @ points)[bins], low[bins], high[bins])


@compiled
def _summarise(
    values: NDArray[np.float64],
    bins: NDArray[np.int64],
    densities: NDArray[np.float64],
    counts: NDArray[np.float64],
    clipped: NDArray[np.float64],
    caps: NDArray[np.float64],
    cap_slope: float,
    scale: float,
    reach: float,
    laplace: bool,
    levels: NDArray[np.float64],
    summaries: NDArray[np.float64],
) -> None:
    """Fills each row with the quantiles of the levels, and the mean."""
    step = max(1.0, np.floor(scale / 5))
    for row in range(values.size):
        points = evaluation_points(values[row], counts, clipped, reach, step)
        weights = np.empty(points.size)
        for number in range(points.size):
            at = position(points[number])
            index = int(at)
            part = at - index
            distance = abs(values[row] - (1 - part) * clipped[index] - part * clipped[index + 1]) / scale
            weight = np.exp(-distance) if laplace else np.exp(-0.5 * distance * distance)
            density = (1 - part) * densities[bins[row], index] + part * densities[bins[row], index + 1]
            excess = cap_slope * (points[number] - caps[row]) - 1.7
            weights[number] = (weight * density + 1e-290) / (1.0 + np.exp(min(60.0, max(-60.0, excess))))
            if points[number] > 64.0:
                weights[number] *= step
        total = weights.sum()
        summaries[row, levels.size] = (weights * points).sum() / total
        cumulated, level = 0.0, 0
        for number in range(points.size):
            cumulated += weights[number]
            while level < levels.size and cumulated >= levels[level] * total * (1 - 1e-12):
                summaries[row, level] = points[number]
                if points[number] > 64.0:  # Within a step, the quantile is interpolated.
                    beyond = (cumulated - levels[level] * total) / weights[number]
                    summaries[row, level] += step * (0.5 - beyond)
                level += 1
