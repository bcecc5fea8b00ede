"""The expected loss of each answer by clipping, from the answers and the numbers of queries that units satisfy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.clipping.activity import activities

_ROUNDS = 3  # Each round starts from the answers that the previous round completed; more rounds change nothing.


def expected_loss(
    answers: NDArray[np.float64], satisfied: NDArray[np.float64], units: NDArray[np.float64], lost: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The counts that each of m clipped answers is expected to lack, float64 [m], >= 0.

    answers: float64 [m], clipped answers in counts; negative ones are treated as 0.
    satisfied: float64 [p], positive and distinct, numbers of queries that a unit may satisfy.
    units: float64 [p], the number of units that satisfy each of these numbers of queries.
    lost: float64 [p], in [0, 1], the fraction of each count that such a unit loses by clipping.

    A unit that satisfies k queries is assumed to satisfy query q with probability 1 - exp(-s a_q). This probability is
    proportional to the answer a_q while it is small, and never exceeds 1; s is chosen so that the probabilities sum to
    k. Multiplying all answers by one factor instead would make popular answers far too large, because heavy units
    satisfy nearly all popular queries already.
    """
    heavy = (lost > 0) & (units > 0)
    positive_answers = np.maximum(answers, 0.0)
    loss = np.zeros_like(positive_answers)
    if not heavy.any() or not positive_answers.any():
        return loss
    for _ in range(_ROUNDS):
        current = np.maximum(answers + loss, 0.0)
        rates = activities(current, satisfied[heavy])
        loss = np.zeros_like(current)
        for activity, weight in zip(rates, (units * lost)[heavy], strict=True):
            loss -= weight * np.expm1(-activity * current)
    return loss
