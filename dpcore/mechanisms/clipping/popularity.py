"""Noisy popularity of columns, which weights the random choice of queries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.clipping.marginals import clipped_marginals, plan_clipped_marginals
from dpcore.queries import Conjunctions

# Minimum declared bound on basket sizes, in items, at which baskets are clipped. Clipping halved the noise at bounds of
# 169 and 285, and gained nothing at 64.
WIDE = 128


def noisy_popularity(private: PrivateStatistics, view: BinaryView, share: Fraction) -> NDArray[np.float64]:
    """Noisy counts of each column, float64 [view.columns], >= 0 and not all 0, measured for ``share`` of the budget.

    Two standard deviations are subtracted from each count, so that what remains is mostly signal. If nothing remains,
    the weights are uniform. Baskets are clipped if their declared bound is large, because the noise would otherwise be
    that of baskets which hardly any unit has.
    """
    if _is_clipped(private.terms, view):
        measured = clipped_marginals(private, view, share).measurements[-1]
    else:
        measured = private.measure(Conjunctions.single_columns(view), share)
    weights = np.maximum(measured.values - 2 * measured.stddev, 0.0)
    return weights if weights.any() else np.ones(view.columns)


def check_popularity(terms: PrivacyTerms, view: BinaryView, share: Fraction) -> None:
    """Raises ValueError when ``noisy_popularity`` cannot draw its noise, because the budget is too small."""
    if _is_clipped(terms, view):
        plan_clipped_marginals(terms, view, share)
    else:
        terms.measure_scale(Conjunctions.single_columns(view), share)


def _is_clipped(terms: PrivacyTerms, view: BinaryView) -> bool:
    return not view.groups and terms.unit.contribution.bound >= WIDE
