"""Exact sampling with chances proportional to integer weights close to exp(score), also used as chances. TRUSTED.

A slot is a query or its complement: query q is slot q, its complement slot m + q. Its score in powers of two,

    x = ((prior - shift) / ln 2 - step * hits) + constant + slope * count,

is computed in doubles, in this order; a complement has done - hits and units - count, and a count is at most ``total``.
The slot gets the weight w = floor(2^30 * p(f)) * 2^(e - 30) with e = floor(x), f = x - e in [0, 1), and p(f) a table
and polynomial for 2^f that uses only correctly rounded operations.

Proved relative error of w against 2^x, for the real x of the public numbers that a caller gave:
    * the four parts are at most about 2^12 in size (``Scores`` checks it), their sums about 2^14: two products round by
      at most 2^-41 each, three sums by at most 2^-39 each, together by less than 2^-37;
    * the quotients that make up the parts (slope / ln 2 / total, step / ln 2, (prior - shift) / ln 2, constant / ln 2)
      round by less than 2^-50 of themselves each, together less than 4 * 2^12 * 2^-50 = 2^-36;
    * so x is off by less than 2^-35, w by 2^-35 ln 2; rounding of x - e adds at most 2^-54;
    * p(f): table entries and the polynomial of degree 4 on [0, 2^-8) are off by less than 2^-45 together;
    * the floor: below 2^-30, because 2^30 p(f) >= 2^30 (1 - 2^-45).
Together below 2^-30 + 2^-34, so XI = 2^-29 covers it.

The draw itself is exact, by rejection. Each slot has an integer u >= 2^lift w (``_envelope``); a uniform integer below
the sum of all u falls on a slot and leaves a rest r, uniform in 0 .. u - 1, and the slot is accepted when r plus a
uniform real in [0, 1) is below 2^lift w: r decides alone unless it is the whole part, then more random bits do. Doubles
choose u, and nothing else: however large u is, the law of what is accepted is that of w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel import entropy
from dpcore.kernel.log_weights import LARGEST_SCORE, LogWeights

XI = Fraction(1, 1 << 29)
LARGEST_SLOTS = 1 << 30

_TABLE = np.array([2.0 ** (step / 256) for step in range(256)])
_TABLE.setflags(write=False)
_LN2: Final = math.log(2.0)
_PER_LN2: Final = 1.0 / _LN2
_NO_PRIOR = np.zeros(0)
_NO_PRIOR.setflags(write=False)  # As every prior is: another kind of array would be compiled for anew.

_BLOCK: Final = 64  # Queries whose envelope is summed at once, and computed again where a target falls.

Integers = NDArray[np.integer[Any]]


@final
@dataclass(frozen=True, eq=False)
class UnitCounts:
    """How many units satisfy each query, and how many there are. SENSITIVE.

    counts: int32 or int64 [m], each in 0..units.
    """

    counts: Integers
    units: int


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """The public part of the scores, in powers of two (module docstring). prior: float64 [m], or [0] for zeros."""

    slope: float
    total: int
    step: float
    hits: Integers
    done: int
    prior: NDArray[np.float64]
    shift: float
    constant: float

    @classmethod
    def of(cls, slope: Fraction, tilt: LogWeights, total: int) -> Scores:
        """Scores whose powers of two are exp(slope * count / total + tilt).

        Raises ValueError when a part may pass 2^12 in size: then the error bound would not hold.
        """
        return cls._checked(slope, tilt, total, 0.0, tilt.constant)

    @classmethod
    def up_to_a_factor(cls, slope: Fraction, tilt: LogWeights, total: int) -> Scores:
        """Where only ratios count: the largest prior and the constant become 0, which leaves more room for the rest."""
        if 2 * tilt.size > LARGEST_SLOTS:
            raise ValueError(f"{2 * tilt.size:,} queries and complements; want at most {LARGEST_SLOTS:,}")
        return cls._checked(slope, tilt, total, tilt.prior_span[1], 0.0)

    @classmethod
    def _checked(cls, slope: Fraction, tilt: LogWeights, total: int, shift: float, constant: float) -> Scores:
        per_count, step, constant = float(slope) / _LN2 / total, tilt.step / _LN2, constant / _LN2
        lowest, highest = tilt.prior_span
        check_scores(per_count * total, step * tilt.done, (lowest - shift) / _LN2, (highest - shift) / _LN2, constant)
        prior = _NO_PRIOR if tilt.prior is None else tilt.prior
        return cls(per_count, total, step, tilt.hits, tilt.done, prior, shift, constant)

    def parts(self, exact: UnitCounts) -> _Parts:
        """As compiled code takes them. SENSITIVE."""
        kind = exact.counts.dtype.type
        # A total beyond all counts clamps nothing, and need not fit the type of the counts.
        total = kind(min(self.total, int(np.iinfo(kind).max)))
        public = (self.slope, self.step, self.hits, float(self.done), self.prior, self.shift, self.constant)
        return _Parts(exact.counts, kind(exact.units), total, *public)


class _Parts(NamedTuple):
    """What the scores of all slots are made of, for compiled code. SENSITIVE."""

    counts: Integers
    units: Any
    total: Any
    slope: float
    step: float
    hits: Integers
    done: float
    prior: NDArray[np.float64]
    shift: float
    constant: float


def check_scores(*parts: float) -> None:
    """Refuses scores for which the error bound would not hold; looks at public values only."""
    # Each is compared on its own: the maximum of a number and NaN can be the number.
    for part in parts:
        if not abs(part) <= LARGEST_SCORE:
            raise ValueError(f"a score reaches 2^{part:.3g}; want at most 2^{LARGEST_SCORE:.0f}: lower eta or rounds")


def split_weights(
    scores: Scores, exact: UnitCounts, slots: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Exponent e and mantissa in [2^30, 2^31) of the weight mantissa * 2^(e - 30) of each slot (module docstring)."""
    return _split(_score_of(slots, scores.parts(exact)), _TABLE, _LN2)


def draw(scores: Scores, exact: UnitCounts, size: int) -> NDArray[np.int64]:
    """``size`` independent slots, in random order, with chances proportional to w (module docstring).

    exact: SENSITIVE. Two passes over it cost about 1.2 ns a query, and each draw about 50 ns.
    """
    parts = scores.parts(exact)
    lift, sums = _envelope(parts)
    reached = np.cumsum(sums)
    accepted = np.empty(0, dtype=np.int64)
    while accepted.size < size:
        # The envelope passes the weights by some 6 %, so that one turn is nearly always enough.
        accepted = np.concatenate([accepted, _propose(size - accepted.size, lift, reached, parts)])
    return accepted[:size]


def _propose(missing: int, lift: int, reached: NDArray[np.int64], parts: _Parts) -> NDArray[np.int64]:
    """The accepted ones of a few more proposals than are missing, in random order."""
    proposals = missing + missing // 16 + 2 * math.isqrt(missing) + 2
    targets = entropy.each_below(np.full(proposals, reached[-1], dtype=np.uint64)).astype(np.int64)
    order = np.argsort(targets)
    slots, rests = np.empty(proposals, dtype=np.int64), np.empty(proposals, dtype=np.int64)
    slots[order], rests[order] = _locate(targets[order], reached, lift, parts)
    exponents, mantissas = _split(_score_of(slots, parts), _TABLE, _LN2)
    return slots[_accepts(rests, lift, exponents, mantissas)]


def _accepts(
    rests: NDArray[np.int64], lift: int, exponents: NDArray[np.int32], mantissas: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Whether rest + a uniform real in [0, 1) is below mantissa * 2^(exponent - 30 + lift), exactly."""
    shifts = exponents.astype(np.int64) + (lift - 30)
    wide = mantissas.astype(np.int64)
    # Shifts of 64 and more are undefined; those beyond 31 to the right leave nothing in any case.
    whole = np.where(shifts >= 0, wide << np.maximum(shifts, 0), wide >> np.clip(-shifts, 0, 62))
    accepted = rests < whole
    for index in np.flatnonzero((rests == whole) & (shifts < 0)):
        behind_point = -int(shifts[index])
        accepted[index] = entropy.below(1 << behind_point) < int(mantissas[index]) & ((1 << behind_point) - 1)
    return accepted


def _envelope(parts: _Parts) -> tuple[int, NDArray[np.int64]]:
    """``lift``, and the sum of u over each block of queries and their complements; all sum to less than 2^63.

    u = floor(2^E (1 + F)) + 1, where E + F is x + lift + 2^-36 on a grid of 2^-40, or 0 where that is negative. The
    sums and the grid lose less than 2^-39, and 2^F <= 1 + F on [0, 1], so u > 2^(x + lift) 2^(2^-37), and that is above
    2^lift w. The largest x + lift lies in [power - 1, power), so all 2 m of u sum to less than 2 m 2^(power + 1).
    """
    queries = parts.counts.size
    power = min(36, 61 - (2 * queries).bit_length())
    lift = power - math.floor(_largest(parts)) - 1
    return lift, _sum_envelope(lift, parts)


@compiled
def _split(
    scores: NDArray[np.float64], table: NDArray[np.float64], ln2: float
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    exponents = np.empty(scores.size, dtype=np.int32)
    mantissas = np.empty(scores.size, dtype=np.uint32)
    for slot in range(scores.size):
        x = scores[slot]
        floor = math.floor(x)
        part = x - floor
        if part >= 1.0:  # x lies in (-2^-53, 0), and the difference was rounded up to 1: the score is taken as 0.
            floor, part = floor + 1, 0.0
        fraction = part * 256.0
        step = int(fraction)
        y = (fraction - step) * 0.00390625 * ln2
        power = 1.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0))))
        exponents[slot] = int(floor)
        mantissas[slot] = np.uint32(math.floor(table[step] * power * 1073741824.0))
    return exponents, mantissas


@compiled
def _fill(into: NDArray[np.float64], first: int, here: int, all_of: _Parts) -> None:
    """Scores of ``here`` queries from the first in into[:BLOCK], of their complements in into[BLOCK:]."""
    # Slices begin at 0, so that the compiler need not ask whether an index is negative.
    counts, hits = all_of.counts[first : first + here], all_of.hits[first : first + here]
    prior = all_of.prior[first : first + here]
    for query in range(here):
        public = (prior[query] - all_of.shift) * _PER_LN2 if all_of.prior.size else 0.0
        hit = np.float64(hits[query])
        count, rest = min(counts[query], all_of.total), min(all_of.units - counts[query], all_of.total)
        into[query] = (public - all_of.step * hit) + all_of.constant + all_of.slope * np.float64(count)
        others = (public - all_of.step * (all_of.done - hit)) + all_of.constant
        into[_BLOCK + query] = others + all_of.slope * np.float64(rest)


@compiled
def _largest(all_of: _Parts) -> float:
    """The largest score."""
    scores, largest = np.empty(2 * _BLOCK), np.full(2 * _BLOCK, -np.inf)
    for first in range(0, all_of.counts.size, _BLOCK):
        here = min(all_of.counts.size - first, _BLOCK)
        _fill(scores, first, here, all_of)
        for slot in range(here):  # One largest score for each place in a block: no step waits for the one before.
            largest[slot] = max(largest[slot], scores[slot])
            largest[_BLOCK + slot] = max(largest[_BLOCK + slot], scores[_BLOCK + slot])
    return float(largest.max())


@compiled
def _raise_block(fixed: NDArray[np.int64], scores: NDArray[np.float64], here: int, lift: int) -> None:
    """u of each slot of a block, in place: ``fixed`` is ``scores`` read as integers (``_envelope`` has the formula)."""
    lifted = lift + 2.0**-36
    for slot in range(here):
        # Doubles from 4096 to 8192 are 2^-40 apart: their last 51 bits are the score in such steps.
        scores[slot] = max(scores[slot] + lifted, 0.0) + 6144.0
        scores[_BLOCK + slot] = max(scores[_BLOCK + slot] + lifted, 0.0) + 6144.0
    for slot in range(here):
        fixed[slot] = _raised(fixed[slot] & 0x7FFFFFFFFFFFF)
        fixed[_BLOCK + slot] = _raised(fixed[_BLOCK + slot] & 0x7FFFFFFFFFFFF)


@compiled
def _raised(score: int) -> int:
    return (((score & 0xFFFFFFFFFF) | 0x10000000000) >> (40 - (score >> 40))) + 1


@compiled
def _sum_envelope(lift: int, all_of: _Parts) -> NDArray[np.int64]:
    """The sum of u over each block."""
    sums = np.empty(-(-all_of.counts.size // _BLOCK), dtype=np.int64)
    scores = np.empty(2 * _BLOCK)
    fixed = scores.view(np.int64)
    for block in range(sums.size):
        first = block * _BLOCK
        here = min(all_of.counts.size - first, _BLOCK)
        _fill(scores, first, here, all_of)
        _raise_block(fixed, scores, here, lift)
        found = 0
        for slot in range(here):
            found += fixed[slot] + fixed[_BLOCK + slot]
        sums[block] = found
    return sums


@compiled
def _locate(
    targets: NDArray[np.int64], reached: NDArray[np.int64], lift: int, all_of: _Parts
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slot in whose part of the envelope each target falls, and how far into it; targets are sorted.

    reached: int64 [blocks], sum of u up to the end of each block.
    """
    slots, rests = np.empty(targets.size, dtype=np.int64), np.empty(targets.size, dtype=np.int64)
    scores = np.empty(2 * _BLOCK)
    fixed = scores.view(np.int64)
    block, place, before = -1, 0, np.int64(0)  # before: the sum of u before the slot at ``place`` of the block.
    for index in range(targets.size):
        target = targets[index]
        if block < 0 or target >= reached[block]:
            block = np.searchsorted(reached, target, side="right")
            first = block * _BLOCK
            here = min(all_of.counts.size - first, _BLOCK)
            # The same operations as in ``_sum_envelope``, each correctly rounded, give the same u.
            _fill(scores, first, here, all_of)
            _raise_block(fixed, scores, here, lift)
            fixed[here:_BLOCK] = 0
            place, before = 0, reached[block] - fixed[: _BLOCK + here].sum()
        while target >= before + fixed[place]:
            before += fixed[place]
            place += 1
        slots[index] = first + place if place < _BLOCK else all_of.counts.size + first + place - _BLOCK
        rests[index] = target - before
    return slots, rests


@compiled
def _score_of(slots: NDArray[np.int64], all_of: _Parts) -> NDArray[np.float64]:
    scores = np.empty(slots.size)
    pair = np.empty(2 * _BLOCK)
    for index in range(slots.size):
        query = slots[index] % all_of.counts.size
        _fill(pair, query, 1, all_of)
        scores[index] = pair[0] if slots[index] < all_of.counts.size else pair[_BLOCK]
    return scores
