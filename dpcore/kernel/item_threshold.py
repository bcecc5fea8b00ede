"""Discovery of items: the weights of a unit, the threshold above which an item is released, and their proof. TRUSTED.

Setting. A unit holds a set of items, whose names are not known in advance. In each of some rounds, the items that
earlier rounds have released are left out, and a unit keeps at most b of its other items, which depends on its own
rows, on what is left out and on a secret alone. A unit that keeps k adds the integer weight w(k) = floor(2^16 /
sqrt(k)) to the sum of each of them. Independent Gaussian noise is added to the sum of every item that at least one
unit keeps, and the item is released with this noisy sum if it is at least the threshold T of the round. Everything
that follows (queries, answers, synthetic rows) sees the released items and their noisy sums alone; call this the rest.

Claim. Let the noise of the sums of all rounds and the rest together be mu-GDP (or rho-zCDP) for lists of items that
depend on earlier outputs alone, let this imply (epsilon - 2 t, delta - t)-DP, and let t <= 1/2 be the sum of the
threshold deltas t_r of the rounds, where T of round r is so large that for each k = 1 .. b

    k P(noise >= T - w(k))  <=  t_r.

Then the whole is (epsilon, delta)-DP, for add/remove and for replace-one.

Proof. Let D and D' be neighbours, and C the data of the units that they have in common. Given the outputs before round
r, let S_r be the items that some unit of C keeps in round r. It is the same for D and D'.
(1) Censored runs. Let M(D) be the whole mechanism, and N(D) the same mechanism, which in no round releases an item
    outside S_r. Every item of S_r is kept by a unit of C, which is in D and in D', so both draw noise for each of them.
    No noise is needed for items that nobody keeps: they are outside S_r and are never released. Given the outputs
    before round r, the sums over S_r differ between D and D' by the weights of one unit (add/remove) or of two
    (replace-one). Those of one unit are at most k entries w(k) with k w(k)^2 <= 2^32. They are not negative, so for two
    units |v - v'|_2^2 <= |v|_2^2 + |v'|_2^2 <= 2^33. Hence each round of N is a Gaussian mechanism on a list that
    earlier outputs determine, and by assumption P(N(D) in E) <= e^(epsilon - 2 t) P(N(D') in E) + delta - t for every
    event E, and the same with D and D' exchanged.
(2) The bad event. Items of D that are kept outside S_r are kept by the one unit of D that is not in C, if there is one.
    If it keeps k items, at most k are outside S_r, and the sum of each is exactly w(k). So, whatever the outputs before
    round r, some item outside S_r is released with probability at most k P(noise >= T - w(k)) <= t_r. This depends on
    other noise than that of the items in S_r. Given that none is released, round r of M(D) proceeds as that of N(D).
(3) Together. Let E be an event, and F its outcomes in which the released items of every round lie in S_r. By (2), the
    law of M(D) on F has a density with respect to that of N(D), which is a product of one factor from 1 - t_r to 1 for
    each round, hence at least 1 - t and at most 1; the same holds for D'. Outcomes of E outside F have probability at
    most t under M(D). Therefore
    P(M(D) in E) <= t + P(N(D) in F) <= t + e^(epsilon - 2 t) P(N(D') in F) + delta - t
                 <= delta + e^(epsilon - 2 t) P(M(D') in F) / (1 - t)
                 <= delta + e^epsilon P(M(D') in E), because 1 - t >= e^(-2 t) for 0 <= t <= 1/2.

Several releases of a dataset are further rounds, and what they release besides is part of the rest. All together are
(epsilon, delta)-DP when t is the sum of all their threshold deltas, and the sum of their amounts implies
(epsilon - 2 t, delta - t)-DP.

Arithmetic. Noise is drawn in steps: a discrete Gaussian Z on whole numbers has P(Z >= z) <= P(N >= z - 1) for the
normal N of the same scale (Canonne, Kamath and Steinke 2020, Proposition 25), and a normal rounded to whole steps
satisfies the same because round(N) >= z implies N >= z - 1/2. The upper tail of the normal is computed by erfc, whose
relative error is far below 1e-12, and raised by ``_SLACK``. The threshold is an integer, and each k is checked.

Source: Korolova, Kenthapadi, Mishra and Ntoulas (2009) for thresholds; Gopi et al., "Differentially Private Set Union"
(2020), for the weighted Gaussian; Swanberg, Desfontaines and Haney, "DP-SIPS" (2023), for rounds. The proof of the
claim for either relation and any rest is ours.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, erfcinv

from dpcore.kernel.budget import Budget
from dpcore.kernel.conversion import epsilon_of

WEIGHT_BITS: Final = 16
"""A unit of one item adds 2^WEIGHT_BITS to the sum of this item."""

LARGEST_BOUND: Final = 1 << 20
"""Maximum number of items of a unit: beyond, weights would be rounded by more than a hundredth."""

_LARGEST_THRESHOLD: Final = 1 << 62
LARGEST_THRESHOLD_DELTA: Final = Fraction(1, 2)
SMALLEST_THRESHOLD_DELTA: Final = Fraction(1, 1 << 1000)
"""Below, doubles hold too few digits of a tail for ``_SLACK``."""
_SLACK: Final = 1e-9


def without_threshold_delta(epsilon: float, delta: float, threshold_delta: Fraction) -> tuple[float, float]:
    """(epsilon - 2 t, delta - t) of the claim, rounded down: what the budget of a release must imply.

    epsilon, delta: The guarantee of the whole.
    threshold_delta: t; 0 gives the guarantee itself.

    Raises ValueError when one of them would not be positive, or t exceeds 1/2, for which there is no proof.
    """
    if not threshold_delta:
        return epsilon, delta
    if threshold_delta > LARGEST_THRESHOLD_DELTA:
        raise ValueError(f"thresholds are exceeded with probability {float(threshold_delta):g}; want at most 1/2")
    reduced = _float_at_most(Fraction(epsilon) - 2 * threshold_delta), _float_at_most(Fraction(delta) - threshold_delta)
    if min(reduced) <= 0:
        raise ValueError(
            f"a threshold that is exceeded with probability {float(threshold_delta):g} leaves nothing of epsilon "
            f"{epsilon:g} and delta {delta:g}; want a larger epsilon or delta"
        )
    return reduced


def epsilon_with_threshold_delta(budget: Budget, delta: float, threshold_delta: Fraction) -> float:
    """Epsilon at delta of a release with this budget and threshold delta t, rounded up: that at delta - t, plus 2 t.

    Raises ValueError unless t is below delta and at most 1/2.
    """
    if not threshold_delta:
        return epsilon_of(budget, delta)
    if threshold_delta > LARGEST_THRESHOLD_DELTA:
        raise ValueError(f"thresholds are exceeded with probability {float(threshold_delta):g}; want at most 1/2")
    epsilon = epsilon_of(budget, _float_at_most(Fraction(delta) - threshold_delta))
    return -_float_at_most(-(Fraction(epsilon) + 2 * threshold_delta))


def _float_at_most(number: Fraction) -> float:
    nearest = float(number)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > number else nearest


def weights_of(bound: int) -> NDArray[np.int64]:
    """Weight by the number of items of a unit, int64 [bound + 1]: floor(2^16 / sqrt(k)), and 0 for k = 0.

    bound: Maximum number of items of a unit.

    Raises ValueError for a bound outside 1 .. ``LARGEST_BOUND``.
    """
    if not 1 <= bound <= LARGEST_BOUND:
        raise ValueError(f"a unit has up to {bound:,} items; want 1 .. {LARGEST_BOUND:,}")
    square = 1 << (2 * WEIGHT_BITS)
    return np.array([0, *(math.isqrt(square // k) for k in range(1, bound + 1))], dtype=np.int64)


def squared_norm(weights: NDArray[np.int64]) -> int:
    """Maximum over k of k w(k)^2, exact: the squared L2 norm of what one unit adds to the sums."""
    return int((np.arange(weights.size) * weights**2).max())


def threshold_steps(weights: NDArray[np.int64], scale: float, steps: int, threshold_delta: Fraction) -> int:
    """The smallest noisy sum that is released, in noise steps.

    weights: Weight by the number of items of a unit, int64 [b + 1].
    scale: Standard deviation of the noise, in steps of the weights.
    steps: Noise steps per step of the weights.
    threshold_delta: t of the proof, from 2^-1000 to 1/2.

    Returns: An integer T with k P(noise >= T - w(k)) <= t for each k, computed with the safe bound of the module.

    Raises ValueError for a threshold delta out of range.
    """
    if not SMALLEST_THRESHOLD_DELTA <= threshold_delta <= LARGEST_THRESHOLD_DELTA:
        raise ValueError(
            f"the threshold is exceeded with probability {float(threshold_delta):g}; want 2^-1000 <= t <= 1/2"
        )
    counts, sigma = np.arange(1, weights.size), scale * steps
    quantiles = math.sqrt(2.0) * erfcinv(2 * float(threshold_delta) / counts)  # Near the answer; the loop makes sure.
    threshold = int((np.floor(sigma * quantiles) + weights[1:] * steps).max())
    if threshold >= _LARGEST_THRESHOLD:
        raise ValueError(
            f"noise of {scale:g} steps needs a threshold of 2^62 or more; want a larger share of the budget"
        )
    while not _is_enough(threshold, weights, sigma, steps, threshold_delta):
        threshold += 1 + int(sigma * _SLACK)
    return threshold


def _is_enough(threshold: int, weights: NDArray[np.int64], sigma: float, steps: int, threshold_delta: Fraction) -> bool:
    counts = np.arange(1, weights.size)
    margins = (threshold - 1 - weights[1:] * steps) / sigma
    return bool((counts * tail(margins) <= float(threshold_delta) * (1 - _SLACK)).all())


def tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper bound on the probability that a standard normal exceeds z, float64 [n]."""
    return np.asarray(erfc(z / math.sqrt(2.0)) / 2 * (1 + _SLACK))
