"""Where preferences come from: what a column that the sampled queries leave free shall be."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView


def draw_preferences(
    view: BinaryView, probabilities: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Random preferences whose preferred record has each column with its probability, float64 [view.columns].

    In a one-hot group log p plus Gumbel noise: whatever columns an objective leaves open, the largest is one of them
    with chances proportional to p. Outside the groups log(p / (1 - p)) plus logistic noise: > 0 with chance p.
    """
    with np.errstate(divide="ignore"):
        if view.groups:
            return np.log(probabilities) + generator.gumbel(size=view.columns)
        return np.log(probabilities) - np.log1p(-probabilities) + generator.logistic(size=view.columns)


def uniform(view: BinaryView) -> NDArray[np.float64]:
    """Every value of a group alike, every column outside the groups like a coin."""
    if not view.groups:
        return np.full(view.columns, 0.5)
    sizes = np.array([stop - start for start, stop in view.groups])
    return np.repeat(1.0 / sizes, sizes)


def from_noisy_counts(view: BinaryView, counts: NDArray[np.int64], total: int, stddev: float) -> NDArray[np.float64]:
    """One-way marginals as probabilities, float64 [view.columns]; post-processing of noisy counts.

    In a group: the distribution nearest to the noisy frequencies. Outside: the noisy frequency, and 0 below
    sqrt(2 ln d) standard deviations, which is what the largest of d pure noises reaches (Donoho and Johnstone 1994):
    otherwise the noise of many rare items would fill every basket.
    """
    frequencies = counts / total
    if not view.groups:
        threshold = math.sqrt(2.0 * math.log(view.columns)) * stddev
        return np.where(counts > threshold, np.minimum(frequencies, 1.0), 0.0)
    return np.concatenate([_nearest_distribution(frequencies[start:stop]) for start, stop in view.groups])


def _nearest_distribution(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean projection onto the probability simplex: lower all by one amount, cut at 0."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(values) + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    return np.maximum(values - level, 0.0)
