"""The error that a measurement is expected to leave in a model, from public facts alone."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.prior import prior_variances

_MEAN_ABSOLUTE: Final = math.sqrt(2 / math.pi)  # Mean absolute value of a standard normal.


def expected_errors(
    counts: NDArray[np.float64], stddev: float | NDArray[np.float64], scale: float = 1.0
) -> NDArray[np.float64]:
    """Expected absolute error of each cell after a measurement with this noise, float64 like ``counts``, in counts.

    counts: What a model expects in each cell, or in each answer, before the measurement.
    stddev: Standard deviation of the noise: one number for all cells, or one for each.
    scale: Of ``prior_variances``, g.

    A cell that is expected to hold e deviates from e by about (g e^1.5)^(1/2), so a measurement leaves the standard
    deviation (1 / (g e^1.5) + 1 / sigma^2)^(-1/2). For a large cell that is the noise; for a small cell it is no more
    than the cell's own deviation. Algorithm 6 of the thesis takes the noise alone, which is far too much for the nearly
    empty cells of a large marginal.
    """
    prior, noise = prior_variances(counts, scale), np.square(stddev)
    deviation = prior + noise  # The vector may be long, so all steps reuse it.
    np.divide(noise, deviation, out=deviation)
    deviation *= prior
    np.sqrt(deviation, out=deviation)
    deviation *= _MEAN_ABSOLUTE
    return deviation


def scale_of_distance(counts: NDArray[np.float64], distance: float) -> float:
    """The scale of ``prior_variances`` at which the expected deviations of all cells sum to an L1 distance.

    counts: What a model expects in each cell.
    distance: The L1 distance of the cells from the model, in counts.

    The scale is at least 1, because a small distance that is known with noise says little.
    """
    usual = _MEAN_ABSOLUTE * float(np.sqrt(prior_variances(counts, 1.0)).sum())
    return max(1.0, (distance / usual) ** 2)
