"""Where preferences come from: what a column that the sampled queries leave free shall be."""

from __future__ import annotations

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
