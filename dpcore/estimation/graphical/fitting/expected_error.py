"""What a measurement is expected to leave of a model's error, from public facts alone."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.prior import prior_variances

_ABSOLUTE: Final = math.sqrt(2 / math.pi)


def expected_errors(counts: NDArray[np.float64], stddev: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Expected absolute error of each cell after a measurement with this noise, float64 like ``counts``, in counts.

    counts: What a model expects in each cell, or answer, before.
    stddev: Of the noise in each, or in all of them.

    A cell that is expected to hold e differs from it by about e^0.75 (``prior_variances`` of spread 1), so that a
    measurement leaves the standard deviation (1 / e^1.5 + 1 / sigma^2)^(-1/2): the noise where a cell is large, but
    never more than the cell itself allows. Algorithm 6 of the thesis takes the noise alone, which is far too much for
    the empty cells of a large marginal.
    """
    prior, noise = prior_variances(counts, 1.0), np.square(stddev)
    left = prior + noise  # One vector beside the prior, however long they are.
    np.divide(noise, left, out=left)
    left *= prior
    np.sqrt(left, out=left)
    left *= _ABSOLUTE
    return left
