"""Exact selection of a candidate by its integer score: permute-and-flip and the exponential mechanism. TRUSTED.

Both mechanisms flip coins. The coin of candidate i shows heads with probability exp(-gap_i / scale), where gap_i is the
largest score minus the score of i; a candidate of largest score always shows heads.

* Permute-and-flip, for pure DP, visits the candidates in uniformly random order and returns the first whose coin shows
  heads. The order is independent of the coins, so this is the same as flipping every coin once and returning a
  uniformly chosen candidate among those that show heads. Its law is that of the largest score after exponential noise
  (Ding, Kifer et al. 2021).
* The exponential mechanism, for zCDP and Gaussian DP, returns candidate i with probability proportional to
  exp(score_i / scale). Rejection draws it: propose a uniform candidate, flip its coin, and repeat until heads. Its law
  is that of the largest score after Gumbel noise.

A coin is exact. A uniform real in [0, 1) is compared with exp(-gap / scale), where the gap is an integer and the scale
the rational number that its double is. Doubles decide the comparison only where they are more than MARGIN apart;
elsewhere exact arithmetic decides it, with more bits of the uniform real drawn as they are needed.

Proof of MARGIN = 2^-32. The gap as a double and its quotient by the scale are rounded once each: below the exponent 32
that moves it by less than 32 * 2^-52 = 2^-47, and exp(-x) by less. ``certified_exp`` adds less than 2^-44, and the
first 53 bits of the uniform real stand for an interval of width 2^-53. The sum is below 2^-43. From the exponent 32 on
the probability is below 2^-46, so a uniform real above MARGIN shows tails.

The number of proposals of the exponential mechanism depends on the scores, as run times in general do; run times are
outside the guarantee (PRIVACY.md).

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
_FEWEST_PROPOSALS, _MOST_PROPOSALS = 64, 1 << 16  # Of a batch; each batch has twice as many as the one before.
_TAILS, _HEADS, _UNDECIDED = 0, 1, 2


def noisy_argmax(scores: NDArray[np.int64], currency: Currency, scale: float) -> int:
    """Index of a candidate whose score is nearly the largest.

    scores: int64 [candidates], at least one; SENSITIVE.
    currency: Pure DP takes permute-and-flip, zCDP and Gaussian DP take the exponential mechanism.
    scale: Of the noise, in steps of the scores, > 0; ``scales.selection_scale`` says what it costs.

    Formal guarantee: the index has exactly the law of the module docstring, for any int64 scores.
    """
    # Differences of int64 wrap to their true value in uint64, which holds every gap.
    gaps = scores.max().astype(np.uint64) - scores.astype(np.uint64)
    return _permute_and_flip(gaps, scale) if currency is Currency.PURE else _exponential_mechanism(gaps, scale)


def _permute_and_flip(gaps: NDArray[np.uint64], scale: float) -> int:
    heads = np.flatnonzero(_flip(gaps, scale))
    return int(heads[entropy.below(heads.size)])


def _exponential_mechanism(gaps: NDArray[np.uint64], scale: float) -> int:
    proposals = _FEWEST_PROPOSALS
    while True:
        candidates = entropy.each_below(np.full(proposals, gaps.size, dtype=np.uint64)).astype(np.int64)
        heads = np.flatnonzero(_flip(gaps[candidates], scale))
        if heads.size:
            return int(candidates[heads[0]])
        proposals = min(2 * proposals, _MOST_PROPOSALS)


def _flip(gaps: NDArray[np.uint64], scale: float) -> NDArray[np.bool_]:
    """Independent coins, bool [n]: heads with probability exp(-gap / scale), exactly. SENSITIVE."""
    words = entropy.words(gaps.size)
    coins = _decide(gaps, scale, words, EXP_TABLE, MARGIN)
    for coin in np.flatnonzero(coins == _UNDECIDED):
        coins[coin] = decide_exactly(Fraction(int(gaps[coin])) / Fraction(scale), int(words[coin]))
    return np.asarray(coins == _HEADS)


@compiled
def _decide(
    gaps: NDArray[np.uint64], scale: float, words: NDArray[np.uint64], table: NDArray[np.float64], margin: float
) -> NDArray[np.int8]:
    """Each coin by its first word: heads, tails, or undecided where doubles cannot be sure."""
    coins = np.empty(gaps.size, dtype=np.int8)
    for coin in range(gaps.size):
        exponent = np.float64(gaps[coin]) / scale
        probability = exp_of_negative(exponent, table) if exponent < LARGEST_EXPONENT else 0.0
        excess = np.float64(words[coin] >> np.uint64(11)) * 2.0**-53 - probability
        coins[coin] = _UNDECIDED if abs(excess) <= margin else _TAILS if excess > 0.0 else _HEADS
    return coins


def decide_exactly(exponent: Fraction, word: int) -> bool:
    """Whether a uniform real, whose first 64 bits are ``word``, is below exp(-exponent); slow and obvious."""
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
