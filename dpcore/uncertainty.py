"""Released answers with standard deviations and confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import GRID_BITS, Measurement, Noise

CONFIDENCE = 0.95  # Confidence level of all intervals.


@dataclass(frozen=True, eq=False)
class Estimation:
    """What stands behind answers that are estimates and not measured values.

    measured: The measured values with their noise, in counts, float64 [size]; NaN where a query was not measured.
    q_values: Smallest false discovery rate at which "the exact answer is not 0" is a discovery, in [0, 1], float64
        [size]; NaN where a query was not measured. Of all queries with a q-value of at most q, the expected fraction
        whose exact answer is 0 is at most q, whatever the data contain, for every q that is fixed in advance.
    guaranteed_lower: Lower end of an interval that contains the exact answer with probability CONFIDENCE for each query
        alone, whatever the data contain, float64 [size].
    guaranteed_upper: Upper end of the same interval.
    """

    measured: NDArray[np.float64]
    q_values: NDArray[np.float64]
    guaranteed_lower: NDArray[np.float64]
    guaranteed_upper: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """Released answers of a workload, in counts.

    values: The answers, float64 [size].
    stddev: Standard deviation of each answer, float64 [size]; NaN where it is unknown.
    lower: Lower end of the two-sided interval at level CONFIDENCE for each single answer, float64 [size]; NaN where it
        is unknown. A model's answer may have an interval without a standard deviation.
    upper: Upper end of the same interval, float64 [size].
    measured: Whether the values are estimates from noisy answers (True) or answers of a model (False). If True, a value
        without a standard deviation was not measured itself but predicted from other answers.
    estimation: None if the interval holds for each single answer, or if there is no interval. Otherwise the values are
        empirical-Bayes estimates, ``stddev`` is that of the noise in the measured values, and [lower, upper] is
        calibrated on average over all queries; the field has the measured values, q-values, and intervals for each
        single answer.
    """

    values: NDArray[np.float64]
    stddev: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    measured: bool
    estimation: Estimation | None = None


def half_width(noise: Noise, scale: float, confidence: float = CONFIDENCE) -> float:
    """Half width h of a confidence interval: P(|noise| <= h) >= confidence.

    noise: Law of the noise.
    scale: Scale of the noise, in counts.
    confidence: Probability in (0, 1).

    Returns: h in counts. For the discrete Laplace it is the smallest such integer, from P(|Z| > h) = 2 r^(h+1) / (1 +
        r) with r = exp(-1/b). The tails of the discrete Gaussian are those of the continuous Gaussian up to rounding
        (Canonne, Kamath and Steinke 2020, Proposition 25), so half a count is added to the Gaussian quantile. The
        rounded Gaussian differs from a Gaussian by at most half a step of its grid, so half a step is added.
    """
    tail = 1 - confidence
    if noise is not Noise.LAPLACE:
        step = 1.0 if noise is Noise.GAUSSIAN else 2.0**-GRID_BITS
        return NormalDist().inv_cdf(1 - tail / 2) * scale + step / 2
    ratio = math.exp(-1.0 / scale)
    return float(max(0, math.ceil(-scale * math.log(tail * (1 + ratio) / 2) - 1)))


def of_measurements(measurements: list[Measurement]) -> Answers:
    """The answers of measurements, one measurement after another, with their intervals."""
    sizes = [len(measurement.values) for measurement in measurements]
    values = np.concatenate([measurement.values for measurement in measurements])
    stddev = np.repeat([measurement.stddev for measurement in measurements], sizes)
    widths = np.repeat([_half_width(measurement) for measurement in measurements], sizes)
    return Answers(values, stddev, values - widths, values + widths, measured=True)


def _half_width(measurement: Measurement) -> float:
    """Half width of the intervals of one measurement, in counts."""
    denominator = measurement.denominator
    return half_width(measurement.noise, measurement.scale * denominator) / denominator


def of_model(values: NDArray[np.float64]) -> Answers:
    """The answers of a model, in counts, without standard deviations or intervals."""
    unknown = np.full(len(values), np.nan)
    return Answers(np.asarray(values, dtype=np.float64), unknown, unknown, unknown, measured=False)
