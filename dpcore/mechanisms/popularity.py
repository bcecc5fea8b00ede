"""Noisy popularity of columns, to weight the choice of queries by."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.queries import Conjunctions


def noisy_popularity(private: PrivateStatistics, view: BinaryView, share: Fraction) -> NDArray[np.float64]:
    """How often each column is 1, bought for ``share``; float64 [view.columns], >= 0, not all 0.

    Counts below the noise say nothing, so two standard deviations are taken off: what remains is mostly real.
    Where nothing remains the weights are uniform.
    """
    measured = private.measure(Conjunctions.single_columns(view), share)
    weights = np.maximum(measured.values - 2 * measured.stddev, 0.0)
    return weights if weights.any() else np.ones(view.columns)
