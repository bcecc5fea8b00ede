"""Exact selection of a candidate by its integer score: permute-and-flip and the exponential mechanism. TRUSTED.

Both mechanisms flip coins. The coin of candidate i shows heads with probability exp(-gap_i / scale), where gap_i is the
largest score minus score_i. A candidate with the largest score therefore always shows heads.

* Permute-and-flip, for pure DP, visits the candidates in uniformly random order and returns the first whose coin shows
  heads. The order is independent of the coins. The mechanism is therefore the same as flipping every coin once and
  returning a uniformly random candidate among those that show heads. The selected candidate has the same law as the
  candidate with the largest score after exponential noise is added (Ding, Kifer et al. 2021).
* The exponential mechanism, for zCDP and Gaussian DP, returns candidate i with probability proportional to
  exp(score_i / scale). Rejection sampling draws it: propose a uniform candidate, flip its coin, and repeat until the
  coin shows heads. The selected candidate has the same law as the candidate with the largest score after Gumbel noise
  is added.

Every coin is exact. A uniform real in [0, 1) is compared with exp(-gap / scale), where the gap is an integer and the
double of the scale is taken as an exact rational. Doubles decide the comparison only when the two sides are more than
MARGIN apart. Otherwise exact arithmetic decides it, and further bits of the uniform real are drawn on demand.

Proof of MARGIN = 2^-32. The conversion of the gap to a double and its division by the scale round once each. For an
exponent below 32 this moves the exponent by less than 32 * 2^-52 = 2^-47, and exp(-x) by less than that.
``certified_exp`` adds less than 2^-44. The first 53 bits of the uniform real stand for an interval of width 2^-53. The
sum is below 2^-43. For an exponent of at least 32 the probability is below 2^-46, so a uniform real above MARGIN shows
tails.

The number of proposals of the exponential mechanism depends on the scores. Run times are outside the guarantee
(PRIVACY.md).

Source: McKenna and Sheldon (2020), "Permute-and-Flip", Algorithm 1; McSherry and Talwar (2007).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel import entropy
from dpcore.kernel.budget import Currency
from dpcore.kernel.certified_exp import EXP_TABLE, LARGEST_EXPONENT, exp_of_negative
from dpcore.kernel.exact_exp import exp_bounds
from dpcore.kernel.exact_rejection import Revealed

MARGIN: Final = 2.0**-32
_FEWEST_PROPOSALS, _MOST_PROPOSALS = 64, 1 << 16  # Size of the first and the largest batch; batches double.
_TAILS, _HEADS, _UNDECIDED = 0, 1, 2


def noisy_argmax(scores: NDArray[np.int64], currency: Currency, scale: float) -> int:
    """Draws the index of a candidate whose score is close to the largest.

    scores: int64 [candidates], one or more candidates. SENSITIVE.
    currency: Selects permute-and-flip (pure DP) or the exponential mechanism (zCDP and Gaussian DP).
    scale: Noise scale in steps of the scores, positive. ``scales.selection_scale`` derives it from the cost.

    Formal guarantee: for all int64 scores the index has exactly the law of the module docstring.
    """
    # A difference of two int64 can exceed int64. In uint64 the subtraction wraps around to the correct gap.
    gaps = scores.max().astype(np.uint64) - scores.astype(np.uint64)
    return _permute_and_flip(gaps, scale) if currency is Currency.PURE else _exponential_mechanism(gaps, scale)


def _permute_and_flip(gaps: NDArray[np.uint64], scale: float) -> int:
    """A uniformly random candidate among those whose coin shows heads."""
    heads = np.flatnonzero(_flip(gaps, scale))
    return int(heads[entropy.below(heads.size)])


def _exponential_mechanism(gaps: NDArray[np.uint64], scale: float) -> int:
    """The first of uniform proposals whose coin shows heads."""
    proposals = _FEWEST_PROPOSALS
    while True:
        candidates = entropy.each_below(np.full(proposals, gaps.size, dtype=np.uint64)).astype(np.int64)
        heads = np.flatnonzero(_flip(gaps[candidates], scale))
        if heads.size:
            return int(candidates[heads[0]])
        proposals = min(2 * proposals, _MOST_PROPOSALS)


def _flip(gaps: NDArray[np.uint64], scale: float) -> NDArray[np.bool_]:
    """Independent coins, bool [n]; each shows heads with probability exactly exp(-gap / scale). SENSITIVE."""
    words = entropy.words(gaps.size)
    coins = _decide(gaps, scale, words, EXP_TABLE, MARGIN)
    for coin in np.flatnonzero(coins == _UNDECIDED):
        coins[coin] = decide_exactly(Fraction(int(gaps[coin])) / Fraction(scale), int(words[coin]))
    return np.asarray(coins == _HEADS)


@compiled
def _decide(
    gaps: NDArray[np.uint64], scale: float, words: NDArray[np.uint64], table: NDArray[np.float64], margin: float
) -> NDArray[np.int8]:
    """Decides each coin by the first word of its uniform real: heads, tails, or undecided within the margin."""
    coins = np.empty(gaps.size, dtype=np.int8)
    for coin in range(gaps.size):
        exponent = np.float64(gaps[coin]) / scale
        probability = exp_of_negative(exponent, table) if exponent < LARGEST_EXPONENT else 0.0
        excess = np.float64(words[coin] >> np.uint64(11)) * 2.0**-53 - probability
        coins[coin] = _UNDECIDED if abs(excess) <= margin else _TAILS if excess > 0.0 else _HEADS
    return coins


def decide_exactly(exponent: Fraction, word: int) -> bool:
    """Whether a uniform real whose first 64 bits are ``word`` is below exp(-exponent), in exact arithmetic."""
    uniform = Revealed(word, 64)
    precision = 64
    while True:
        low, high = exp_bounds(exponent, precision)
        if uniform.high * (1 << precision) <= low:
            return True
        if uniform.low * (1 << precision) >= high:
            return False
        uniform.reveal()
        precision += 64
