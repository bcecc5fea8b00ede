"""Scores of queries and complements written out in numpy: what the kernel's compiled code is held to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.weighted_sampler import SlotScores, UnitCounts


def powers(scores: SlotScores, exact: UnitCounts) -> NDArray[np.float64]:
    """log2 of all weights, float64 [2 m]: first of the queries, then of their complements."""
    counts = np.concatenate([exact.counts, exact.units - exact.counts.astype(np.int64)])
    hits = scores.hits.astype(np.int64)
    prior = (scores.prior - scores.shift) / np.log(2.0) if scores.prior.size else np.zeros(hits.size)
    public = np.tile(prior, 2) - scores.step * np.concatenate([hits, scores.done - hits]) + scores.constant
    return np.asarray(public + scores.slope * np.minimum(counts, scores.total))
