"""Noisy popularity of columns, to weight the choice of queries by."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.clipping.marginals import clipped_marginals
from dpcore.queries import Conjunctions

WIDE = 128  # Items. Clipping halved the noise at bounds of 169 and 285, and gained nothing at 64.


def noisy_popularity(private: PrivateStatistics, view: BinaryView, share: Fraction) -> NDArray[np.float64]:
    """How often each column is 1, measured for ``share``; float64 [view.columns], >= 0, not all 0.

    Counts below the noise say nothing, so two standard deviations are taken off: what remains is mostly real.
    Where nothing remains the weights are uniform. Baskets are clipped where their declared bound is so wide that the
    noise would be that of baskets which hardly anybody has.
    """
    if not view.groups and private.terms.unit.contribution.bound >= WIDE:
        measured = clipped_marginals(private, view, share).measurements[-1]
    else:
        measured = private.measure(Conjunctions.single_columns(view), share)
    weights = np.maximum(measured.values - 2 * measured.stddev, 0.0)
    return weights if weights.any() else np.ones(view.columns)
