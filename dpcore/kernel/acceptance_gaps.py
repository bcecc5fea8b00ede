"""How far below 1 the acceptance probabilities of ``retain`` stay, whatever the data. TRUSTED."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.log_weights import LogWeights

SMALLEST_GAP: Final = Fraction(1, 1 << 20)  # Acceptance probabilities of ``retain`` are at most exp(-SMALLEST_GAP).


def acceptance_gaps(slope: Fraction, log_weights: LogWeights, drawn: NDArray[np.int64]) -> Counter[Fraction]:
    """The gap of each drawn index, exact: minus its largest possible exponent. Counts the draws that share a gap.

    The data add at most max(slope, 0) to an exponent, so the gaps are public.

    Raises ValueError when a query or complement, drawn or not, has a gap below SMALLEST_GAP.
    """
    step, largest = Fraction(log_weights.step), max(slope, Fraction(0)) + Fraction(log_weights.constant)
    fewest_hits = min(int(log_weights.hits.min()), log_weights.done - int(log_weights.hits.max()))
    if -(largest + Fraction(log_weights.prior_span[1]) - step * fewest_hits) < SMALLEST_GAP:
        raise ValueError("an acceptance probability may exceed exp(-2^-20); want slope + log-weights below -gamma < 0")
    indices = drawn % log_weights.size
    hits = log_weights.hits[indices].astype(np.int64)
    hits = np.where(drawn < log_weights.size, hits, log_weights.done - hits)
    priors = np.zeros(drawn.size) if log_weights.prior is None else log_weights.prior[indices]
    gaps: Counter[Fraction] = Counter()
    for (prior, hit), bits in Counter(zip(priors.tolist(), hits.tolist(), strict=True)).items():
        gaps[-(largest + Fraction(prior) - step * hit)] += bits
    return gaps
