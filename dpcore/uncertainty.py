"""Answers with error bars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import GRID_BITS, Measurement, Noise

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Answers:
    """Released answers of a workload, in counts.

    values: float64 [size].
    stddev: float64 [size]; NaN where no error bar is known.
    lower, upper: float64 [size], ends of the two-sided interval at CONFIDENCE for each answer alone; NaN where unknown.
        A model's answer may have an interval and no stddev.
    measured: Whether the values are estimates from noisy exact answers (True) or those of a model (False). A value
        without a stddev was not measured itself, but predicted from others.
    """

    values: NDArray[np.float64]
    stddev: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    measured: bool


def half_width(noise: Noise, scale: float, confidence: float = CONFIDENCE) -> float:
    """Smallest h, in counts, with P(|noise| <= h) >= confidence; an integer for the Laplace.

    Discrete Laplace: P(|Z| > h) = 2 r^(h+1) / (1 + r) with r = exp(-1/b). The discrete Gaussian has sub-Gaussian tails
    of the continuous one up to rounding (Canonne, Kamath and Steinke 2020, Proposition 25): half a count is added. The
    rounded Gaussian moves a Gaussian by at most half a step of its grid: half a step is added.
    """
    tail = 1 - confidence
    if noise is not Noise.LAPLACE:
        step = 1.0 if noise is Noise.GAUSSIAN else 2.0**-GRID_BITS
        return NormalDist().inv_cdf(1 - tail / 2) * scale + step / 2
    ratio = math.exp(-1.0 / scale)
    return float(max(0, math.ceil(-scale * math.log(tail * (1 + ratio) / 2) - 1)))


def of_measurements(measurements: list[Measurement]) -> Answers:
    """The measured values, one measurement after another, with the interval of each."""
    sizes = [len(measurement.values) for measurement in measurements]
    values = np.concatenate([measurement.values for measurement in measurements])
    stddev = np.repeat([measurement.stddev for measurement in measurements], sizes)
    widths = np.repeat([_half_width(measurement) for measurement in measurements], sizes)
    return Answers(values, stddev, values - widths, values + widths, measured=True)


def _half_width(measurement: Measurement) -> float:
    steps = measurement.denominator
    return half_width(measurement.noise, measurement.scale * steps) / steps


def of_model(values: NDArray[np.float64]) -> Answers:
    """A model's answers: no error bar is claimed for them."""
    unknown = np.full(len(values), np.nan)
    return Answers(np.asarray(values, dtype=np.float64), unknown, unknown, unknown, measured=False)
